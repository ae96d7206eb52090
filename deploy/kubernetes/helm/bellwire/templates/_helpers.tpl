{{/* The address of the store: the chart's own Redis, or another store. */}}
{{- define "bellwire.store" -}}
{{- if .Values.redis.enabled -}}
redis-sentinel://bellwire@sentinel-0.sentinel:26379,sentinel-1.sentinel:26379,sentinel-2.sentinel:26379/bellwire
{{- else -}}
{{- required "redis.enabled is false: name the store (store: redis://…)" .Values.store -}}
{{- end -}}
{{- end -}}

{{/* The addresses of all brokers, by the names of their pods. */}}
{{- define "bellwire.brokers" -}}
{{- range $number := until (int .count) -}}
{{- if $number }},{{ end -}}
{{ $.scheme }}://broker-{{ $number }}.broker:{{ $.port }}
{{- end -}}
{{- end -}}
