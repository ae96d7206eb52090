"""The tests: a function per normative sentence of docs/protocol.md. Importing this package declares all tests, in
order."""

from importlib import import_module

SECTIONS = (
    "section_1_connection",
    "section_1_backends",
    "section_1_presence",
    "section_1_payloads",
    "section_2_requests",
    "section_2_calls",
    "section_2_refusals",
    "section_2_signals",
    "section_2_queries",
    "section_2_messages",
    "section_2_users",
    "section_2_rate_limits",
    "section_3_members",
    "section_3_between_calls",
    "section_4_call_object",
    "section_5_events",
    "section_5_acks",
    "section_6_timeline",
    "section_7_registering",
    "section_7_push",
    "section_8_media",
)

for section in SECTIONS:
    import_module(f".{section}", __name__)
