"""The listings in Kotlin are compiled: against the SDK, clients/kotlin/android, and stand-ins for Android."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from harness import PROJECT
from harness.kotlin import classpath, compile_kotlin

IMPORTS = """
import android.app.Activity
import android.app.Application
import android.content.Context
import android.content.Intent
import kotlin.concurrent.thread
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Job
import kotlinx.coroutines.flow.filter
import kotlinx.coroutines.launch
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonObject
import android.net.ConnectivityManager
import android.net.Network
import android.os.Bundle
import com.hivemq.client.mqtt.*
import java.io.IOException
import java.net.URI
import java.util.concurrent.CancellationException
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicInteger
import org.bellwire.transport.*
import org.bellwire.*
import org.bellwire.android.*
import org.unifiedpush.android.connector.*
import org.unifiedpush.android.connector.data.*
"""
APP = """
const val VAPID_PUBLIC_KEY = ""
object R { object drawable { const val ic_call = 1 } }
object Registrations {
    val token: String? = null
    fun store(token: String) = Unit
    fun subscriptionChanged(subscription: JsonObject?) = Unit
}
suspend fun fetchToken() = ""
suspend fun askTheUser(inviter: String, media: String?) = true
fun show(call: CallSnapshot) = Unit
fun show(trouble: BellwireException) = Unit
"""
SURROUNDINGS = (
    "client: BellwireClient, connectivityManager: ConnectivityManager, installation: String, scope: CoroutineScope, "
    "applicationContext: Context"
)
"""The names that a listing takes from its app."""
HIVEMQ = "Examples/kotlin-hivemq/HiveMqTransport.kt"


def listings(document: str) -> list[str]:
    return re.findall(r"```kotlin\n(.*?)```", (PROJECT / document).read_text(), re.DOTALL)


@pytest.mark.timeout(300)
def test_the_listings_fit_the_sdk(tmp_path: Path) -> None:
    found = [(document, text) for document in ("docs/kotlin.md", "docs/push.md") for text in listings(document)]
    found.append((HIVEMQ, (PROJECT / HIVEMQ).read_text()))
    assert len(found) >= 5
    sources = []
    for number, (_, text) in enumerate(found):
        declares = re.search(r"^class ", text, re.MULTILINE)
        # A listing with classes is compiled unchanged; the statements of an app are compiled in a function.
        own = "" if "val client" in text else "client: BellwireClient, "
        rest = SURROUNDINGS.removeprefix("client: BellwireClient, ")
        body = text if declares else f"suspend fun listing({own}{rest}) {{\n{text}\n}}"
        given = "lateinit var client: BellwireClient\nlateinit var scope: CoroutineScope\n" if declares else ""
        sources.append(tmp_path / f"Listing{number}.kt")
        sources[-1].write_text(f"package listing{number}\n{IMPORTS}\n{APP}\n{given}{body}")
    compile_kotlin(tmp_path / "out", *sources, PROJECT / "Tests/AndroidStandIns", PROJECT / "clients/kotlin/android/src/main/kotlin")


def test_the_listings_in_java_fit_the_sdk(tmp_path: Path) -> None:
    """The listings are methods of an app. A warning is an error."""
    found = re.findall(r"```java\n(.*?)```", (PROJECT / "docs/kotlin.md").read_text(), re.DOTALL)
    assert found
    source = tmp_path / "Listing.java"
    packages = ("java.util", "java.util.concurrent", "org.bellwire")
    imports = "".join(f"import {package}.*;\n" for package in packages)
    surroundings = """
    String installation; Executor mainThread;
    String fetchToken() { return ""; }
    boolean askTheUser(Call call) { return true; }
    void show(Object text) {}
    """
    methods = "".join(f"void listing{number}() throws Exception {{\n{text}}}\n" for number, text in enumerate(found))
    source.write_text(f"{imports}abstract class Listing {{\n{surroundings}\n{methods}}}\n")
    options = ["--release", "8", "-proc:none", "-Xlint:all,-options,-classfile", "-Werror", "-cp", classpath()]
    command = ["javac", *options, "-d", tmp_path, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr


def test_the_android_part_is_small_and_the_sdk_knows_nothing_of_android() -> None:
    """At most 500 lines: the contract's 400, and 100 for the clock, the log, outgoing calls at Telecom and calls of the
    connection, which came later. No class of Android in the SDK."""
    files = sorted((PROJECT / "clients/kotlin/android/src/main/kotlin").rglob("*.kt"))
    assert 0 < sum(len(file.read_text().splitlines()) for file in files) <= 500
    for file in (PROJECT / "clients/kotlin/src/main/kotlin").rglob("*.kt"):
        assert not re.search(r"^import (android|androidx|com\.google)\.", file.read_text(), re.MULTILINE), file


def test_the_codes_and_reasons_are_those_of_the_protocol() -> None:
    """docs/protocol.md, sections 2 and 4, by the schemas of docs/asyncapi.yaml."""
    schemas = yaml.load((PROJECT / "docs/asyncapi.yaml").read_text(), yaml.CSafeLoader)["components"]["schemas"]
    sources = PROJECT / "clients/kotlin/src/main/kotlin/org/bellwire"
    for file, name, schema in (("BellwireException.kt", "ErrorCodes", "ErrorCode"), ("Types.kt", "EndReasons", "EndReason")):
        words = re.findall(r'const val \w+: String = "(\w+)"', (sources / file).read_text().partition(f"object {name} {{")[2])
        assert words[: len(schemas[schema]["enum"])] == schemas[schema]["enum"], name


def test_the_class_files_are_those_of_java_8(tmp_path: Path) -> None:
    """The classes need only Kotlin's own libraries."""
    jar = PROJECT / ".build/kotlin/bellwire.jar"
    subprocess.run([PROJECT / "scripts/kotlin"], check=True, capture_output=True, timeout=280)
    subprocess.run(["unzip", "-q", jar, "-d", tmp_path], check=True)
    classes = sorted(tmp_path.rglob("*.class"))
    assert len(classes) > 100
    for file in classes:
        data = file.read_bytes()
        assert int.from_bytes(data[6:8], "big") == 52, f"{file.name}: not of Java 8"
        packages = set(re.findall(rb"\x01..(java|javax|kotlin|kotlinx|org)/(\w+)/", data, re.DOTALL))
        assert {name for root, name in packages if root == b"org"} <= {b"bellwire", b"jetbrains"}, file
        assert {name for root, name in packages if root == b"kotlinx"} <= {b"coroutines", b"serialization"}, file
