"""Black-box conformance tests of the Bellwire wire protocol: docs/protocol.md, sentence by sentence.

client/     a device: MQTT connection, requests, acks, presence
contract/   what all traffic must meet: the JSON schemas, and the rules that schemas cannot say
tests/      one function per normative sentence, by section
suite.py    how a test is declared; scene.py what it stands on; expect.py how it asserts
runner.py   runs them in parallel; report.py says what came out; citations.py holds them against the text
"""
