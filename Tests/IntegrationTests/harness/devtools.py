"""The parts of a Chromium that Selenium does not reach, by the DevTools protocol: service workers, and pushes to
them."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from .page import Browser

try:
    import websocket  # Selenium brings this package.
except ImportError:  # pragma: no cover
    websocket = None  # type: ignore[assignment]

_PATIENCE = 30
_COUNTING = """
    if (self.testShown === undefined) {
        self.testShown = 0;
        const show = self.registration.showNotification.bind(self.registration);
        self.registration.showNotification = async (...given) => {
            await show(...given);
            self.testShown += 1;
        };
    }
    return self.testShown;
"""
"""Code for a worker: the number of notifications that the worker has shown since this code ran first."""


class DevTools:
    """A connection to a browser."""

    def __init__(self, browser: Browser) -> None:
        address = browser.driver.capabilities["goog:chromeOptions"]["debuggerAddress"]
        with urllib.request.urlopen(f"http://{address}/json/version", timeout=_PATIENCE) as answer:
            url = json.load(answer)["webSocketDebuggerUrl"]
        self._socket = websocket.create_connection(url, timeout=_PATIENCE, suppress_origin=True)
        self._number = 0
        self._events: list[dict[str, Any]] = []

    def command(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._socket.send(json.dumps(message | ({} if session is None else {"sessionId": session})))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            if "method" in answer:
                self._events.append(answer)

    def event(self, method: str, session: str, matches: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first such event that has not been returned before."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            while self._events:
                event = self._events.pop(0)
                if (event["method"], event.get("sessionId")) == (method, session) and matches(event["params"]):
                    return event["params"]
            answer = json.loads(self._socket.recv())
            if "method" in answer:
                self._events.append(answer)
        raise AssertionError(f"no {method} within {_PATIENCE} s")

    def forget(self) -> None:
        """Forgets the events so far."""
        self._events.clear()

    def attach(self, target: str) -> str:
        return self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def targets(self, kind: str, prefix: str) -> list[str]:
        found = self.command("Target.getTargets", filter=[{}])["targetInfos"]
        return [each["targetId"] for each in found if each["type"] == kind and each["url"].startswith(prefix)]

    def close(self) -> None:
        self._socket.close()


class WorkerTools:
    """The service worker of an origin: the push service's side, and the notifications that the worker shows."""

    def __init__(self, tools: DevTools, origin: str) -> None:
        self._tools = tools
        self.origin = origin
        # A blank tab, since the tabs of the origin may be closed.
        blank = tools.command("Target.createTarget", url="about:blank", background=True)["targetId"]
        self._blank = blank
        self.session = tools.attach(blank)
        self._worker: tuple[str, str] | None = None
        self._shown = 0
        tools.command("ServiceWorker.enable", self.session)

    def _registration(self) -> str:
        """The id of the only registered worker; the workers of former tests may still be about to end."""
        self._tools.command("ServiceWorker.disable", self.session)
        self._tools.forget()
        # Chromium then reports all registrations.
        self._tools.command("ServiceWorker.enable", self.session)

        def living(told: dict[str, Any]) -> list[str]:
            of_origin = [each for each in told["registrations"] if each["scopeURL"].startswith(self.origin)]
            return [each["registrationId"] for each in of_origin if not each["isDeleted"]]

        told = self._tools.event("ServiceWorker.workerRegistrationUpdated", self.session, lambda told: bool(living(told)))
        (number,) = living(told)
        return number

    def _running(self) -> str:
        """The target of that worker."""
        number = self._registration()

        def targets(told: dict[str, Any]) -> list[str]:
            own = [each for each in told["versions"] if each["registrationId"] == number and each["status"] == "activated"]
            return [each["targetId"] for each in own if each.get("targetId") and each["runningStatus"] == "running"]

        return targets(self._tools.event("ServiceWorker.workerVersionUpdated", self.session, lambda told: bool(targets(told))))[0]

    def push(self, data: str) -> None:
        """Delivers a push as the push service does, decrypted; returns once the push is on its way to the worker."""
        self._shown = self.run(_COUNTING)
        number = self._registration()
        self._tools.command(
            "ServiceWorker.deliverPushMessage", self.session, origin=self.origin, registrationId=number, data=data
        )

    def run(self, code: str) -> Any:
        """Runs `code`, the body of an async function, in the worker."""
        self._tools.command("ServiceWorker.startWorker", self.session, scopeURL=f"{self.origin}/")
        if self._worker is None or self._worker[0] not in self._tools.targets("service_worker", self.origin):
            running = self._running()
            self._worker = (running, self._tools.attach(running))
        answer = self._tools.command(
            "Runtime.evaluate", self._worker[1], expression=f"(async () => {{ {code} }})()", awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def has_shown(self) -> bool:
        """Whether the worker has shown a notification after the last push."""
        return self.run(_COUNTING) > self._shown

    def notifications(self) -> list[dict[str, Any]]:
        """A test must not ask while a notification is on its way: the notification would be lost at times, most likely
        since Chromium forgets a notification that Chromium has noted and not yet displayed."""
        return self.run(
            "return (await self.registration.getNotifications()).map(({title, body, tag, silent, requireInteraction, actions}) =>"
            "({title, body, tag, silent, requireInteraction, actions: actions.map(({action}) => action)}))"
        )

    def click(self, tag: str, action: str) -> None:
        """Clicks as a person does; but no browser lets a worker open or focus a page for a click that a script
        makes."""
        self.run(
            f"const [notification] = await self.registration.getNotifications({{tag: {json.dumps(tag)}}});"
            f"self.dispatchEvent(new NotificationEvent('notificationclick', {{notification, action: {json.dumps(action)}}}));"
        )

    def close(self) -> None:
        """Makes the browser forget the origin as well: another test begins without a worker."""
        if self._worker is not None:
            # A watched worker lives on, even when its registration ends.
            self._tools.command("Target.detachFromTarget", sessionId=self._worker[1])
        self._tools.command("ServiceWorker.unregister", self.session, scopeURL=f"{self.origin}/")
        self._tools.command("Storage.clearDataForOrigin", self.session, origin=self.origin, storageTypes="all")
        self._tools.command("Target.closeTarget", targetId=self._blank)
