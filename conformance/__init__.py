"""Black-box conformance tests of the Bellwire wire protocol: docs/protocol.md, sentence by sentence.

client/     a device: MQTT connection, requests, acks, presence
contract/   the contract of all messages: the JSON schemas, and rules that schemas cannot express
tests/      one function per normative sentence, by section
suite.py    declares tests; scene.py makes their devices; expect.py has the assertions
runner.py   runs the tests in parallel; report.py prints the results; citations.py compares the tests with the text
"""
