"""The call page in real browsers: its server, and a person's actions on the page, by roles and accessible names
alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .processes import Value, clean_environment, wait_until
from .service import PROJECT
from .site import Answers, Site

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HEADLESS = shutil.which("/usr/lib/chromium/chromium-headless-shell") or CHROMIUM
"""A Chromium without a window of its own, which takes half the processor time. Such a browser shows no notifications, and
all of its tabs are visible. Debian's script of this name starts the program as a child, which would outlive the script."""
CHROMEDRIVER = shutil.which("chromedriver")

try:
    from selenium import webdriver
    from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
    from selenium.webdriver import ActionChains
except ImportError:  # pragma: no cover
    webdriver = None  # type: ignore[assignment]

MISSING = [
    name for name, found in (("chromium", CHROMIUM), ("chromium-driver", CHROMEDRIVER), ("selenium", webdriver)) if not found
]
"""The programs that these tests need and the machine does not have."""

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    # Few pictures: each costs processor time that other tests need.
    "--use-fake-device-for-media-stream=fps=5",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    "--window-size=1280,900",
    # A name of this machine that no browser takes for secure.
    "--host-resolver-rules=MAP insecure.test 127.0.0.1",
]
_DIST = PROJECT / "clients/web/dist/page"
_KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


def policy(broker_url: str) -> str:
    """The Content-Security-Policy of the page: only the rights that the page needs."""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' {broker_url}; img-src data:; worker-src 'self' blob:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class PageServer(Site):
    """Serves the page as the service does: static files, `page.json`, and the policy."""

    def __init__(self, broker_url: str, tokens: bool = False, push_key: str | None = None) -> None:
        self.broker_url = broker_url
        self.tokens = tokens
        self.push_key = push_key
        self.is_broken = False
        """The server does not know the broker's address."""
        self.unknown: list[str] = []
        """The requested paths that the server does not have."""
        super().__init__(_Answers)

    @property
    def insecure_url(self) -> str:
        """The same page under a name that is no loopback address for a browser."""
        return f"http://insecure.test:{self.port}/"


class _Answers(Answers):
    site: PageServer

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path == "/page.json" and not self.site.is_broken:
            settings = {"url": self.site.broker_url, "tokens": self.site.tokens}
            if self.site.push_key is not None:
                settings["applicationServerKey"] = self.site.push_key
            return self._page(json.dumps(settings).encode(), "application/json")
        file = _DIST / ("index.html" if path == "/" else path[1:])
        if file.parent == _DIST and file.suffix in _KINDS and file.is_file():
            return self._page(file.read_bytes(), _KINDS[file.suffix])
        self.site.unknown.append(path)
        self._page(b"", "text/plain", 404)

    def _page(self, body: bytes, kind: str, status: int = 200) -> None:
        headers = {"Content-Security-Policy": policy(self.site.broker_url), "X-Content-Type-Options": "nosniff"}
        self.answer(body, kind, status, headers)


_CANDIDATES = r"""
const [selector, name] = arguments;
const plain = (text) => (text ?? "").replace(/\s/g, "");
const texts = (element) => [
  element.textContent, element.innerHTML, ...[...element.attributes].map(({value}) => value),
  ...[...(element.labels ?? [])].map((label) => label.textContent),
  ...(element.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent),
];
return [...document.querySelectorAll(selector)].filter((element) =>
  element.getClientRects().length > 0 && (name === null || texts(element).some((text) => plain(text).includes(plain(name)))));
"""
"""The elements of a selector that are drawn and may have an accessible name. The pages' names come from one source each: a
text, an attribute or a label. A name that is composed of several sources is not found so."""


class Browser:
    """A Chromium with a driver of its own. Each page is a tab of this browser."""

    def __init__(self, directory: Path, program: str | None = HEADLESS) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        options = webdriver.ChromeOptions()
        # Chromium and its driver end with their parent, however the parent ends.
        chromium = directory / "chromium"
        chromium.write_text(f'#!/bin/sh\nexec setpriv --pdeathsig KILL -- {program} "$@"\n')
        chromium.chmod(0o700)
        options.binary_location = str(chromium)
        for flag in [*FLAGS, "--use-fake-ui-for-media-stream", "--lang=en-GB"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        # The driver writes to its home folder, and the browser's profile to the folder for temporary files.
        environment = clean_environment({"HOME": str(directory), "TMPDIR": str(directory), "SE_AVOID_STATS": "true"})
        driver = directory / "chromedriver"
        driver.write_text(f'#!/bin/sh\nexec setpriv --pdeathsig KILL -- {CHROMEDRIVER} "$@"\n')
        driver.chmod(0o700)
        service = webdriver.ChromeService(executable_path=str(driver), env=environment, log_output=str(directory / "driver.log"))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(30)

    def tab(self, url: str, before: str = "") -> Page:
        """`before` is a script that runs before the page's scripts."""
        self.driver.switch_to.new_window("tab")
        page = Page(self, self.driver.current_window_handle)
        if before:
            self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": before})
        self.driver.get(url)
        return page

    def console(self) -> list[str]:
        """The errors in the browser's pages since the last look, except the browser's own errors about unreachable
        brokers."""
        entries = self.driver.get_log("browser")
        return [e["message"] for e in entries if e["level"] == "SEVERE" and "WebSocket connection to" not in e["message"]]

    def quit(self) -> None:
        self.driver.quit()
        wait_until(lambda: not self._processes(), 20, "the browser's processes have ended", every=0.1)

    def _processes(self) -> list[Path]:
        """The processes that name the browser's directory in their arguments, in /proc."""
        found = []
        for arguments in Path("/proc").glob("[0-9]*/cmdline"):
            # A process may end meanwhile.
            with suppress(OSError):
                if bytes(self._directory) + b"/" in arguments.read_bytes():
                    found.append(arguments.parent)
        return found


class Page:
    """A tab with the call page."""

    def __init__(self, browser: Browser, handle: str) -> None:
        self.browser = browser
        self.handle = handle
        self.user = ""

    @property
    def driver(self) -> Any:
        driver = self.browser.driver
        if driver.current_window_handle != self.handle:
            driver.switch_to.window(self.handle)
        return driver

    def js(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    # Elements, by role and accessible name

    def all(self, role: str, name: str | Callable[[str], bool] | None = None) -> list[Any]:
        """The elements of the role that are displayed."""
        selectors = {
            "button": "button",
            "link": "a[href]",
            "textbox": "input,textarea",
            "dialog": "dialog,[role=dialog]",
            "status": "[role=status],output",
            "alert": "[role=alert]",
            "video": "video",
        }
        found = []
        # The script leaves out what cannot have this name, since each further question is a request to the browser.
        candidates = self.js(_CANDIDATES, selectors[role], name if isinstance(name, str) else None)
        for element in candidates:
            try:
                if not element.is_displayed() or (role != "video" and element.aria_role != role):
                    continue
                label = element.get_attribute("aria-label") if role == "video" else element.accessible_name
                if name is None or (name(label or "") if callable(name) else label == name):
                    found.append(element)
            except StaleElementReferenceException:
                continue
        return found

    def find(self, role: str, name: str | Callable[[str], bool], timeout: float = 40) -> Any:
        return self.wait(lambda: next(iter(self.all(role, name)), None), timeout, f"{role} {name!r}")

    def has(self, role: str, name: str | Callable[[str], bool]) -> bool:
        return bool(self.all(role, name))

    def wait(self, condition: Callable[[], Value | None], timeout: float, what: str) -> Value:
        try:
            return wait_until(condition, timeout, what, every=0.1)
        except AssertionError as error:
            said = self.js("return document.body.innerText")
            raise AssertionError(f"{self.user}: {error}; the page says:\n{said}\n{self.browser.console()}") from None

    # A person's actions and view

    def press(self, name: str, timeout: float = 40) -> None:
        self.wait(lambda: self.press_if_there(name), timeout, f"button {name!r}")

    def press_if_there(self, *names: str) -> bool:
        """Presses the first of these buttons that the page has now; whether there was one."""
        return any(self._click("button", name) for name in names)

    def follow(self, name: str, timeout: float = 20) -> None:
        self.wait(lambda: self._click("link", name), timeout, f"link {name!r}")

    def _click(self, role: str, name: str) -> bool:
        """Whether there was such an element. The page may draw its elements anew at any time."""
        for element in self.all(role, name):
            with suppress(StaleElementReferenceException):
                element.click()
                return True
        return False

    def double_click(self, name: str) -> None:
        ActionChains(self.driver).double_click(self.find("button", name)).perform()

    def write(self, name: str, text: str) -> None:
        field = self.find("textbox", name)
        field.clear()
        field.send_keys(text)

    def status(self) -> str:
        texts = self.js("return [...document.querySelectorAll('[role=status], output')].map((element) => element.textContent)")
        assert len(texts) == 1, texts
        return texts[0]

    def expect(self, *statuses: str, timeout: float = 15) -> str:
        self.wait(lambda: self.status() in statuses, timeout, f"the status {' or '.join(map(repr, statuses))}")
        return self.status()

    def notices(self) -> str:
        texts = []
        for element in self.all("alert"):
            with suppress(StaleElementReferenceException):
                texts.append(element.text)
        return "\n".join(texts)

    def expect_notice(self, text: str, timeout: float = 15) -> None:
        self.wait(lambda: text in self.notices(), timeout, f"a notice with {text!r}")

    def go_online(self, user: str, token: str | None = None) -> Page:
        self.user = user
        self.write("Your name", user)
        if token is not None:
            self.write("Token", token)
        self.press("Go online")
        self.expect("Online")
        return self

    def call(self, *users: str, kind: str = "Video call") -> None:
        self.write("Who to call", ", ".join(users))
        self.press(kind)

    def answer(self, caller: str, button: str = "Accept") -> None:
        self.find("dialog", lambda name: name.startswith("Incoming call") and caller in name, 15)
        self.press(button)

    def keys(self, *keys: str) -> None:
        """Typed wherever the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def focused(self) -> str:
        """The accessible name of the element that has the focus."""
        return self.driver.switch_to.active_element.accessible_name

    def tab_to(self, name: str) -> None:
        """Moves the focus with the tabulator alone."""
        for _ in range(40):
            if self.focused() == name:
                return
            self.keys("\ue004")
        raise AssertionError(f"{self.user}: no way to {name!r} by the keyboard")

    def offline(self, is_offline: bool) -> None:
        """Takes the page's network away or brings the network back."""
        conditions = {"offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)

    def reload(self) -> None:
        self.driver.refresh()

    # Pictures and sounds

    def expect_frames(self, label: str, timeout: float = 60) -> None:
        """The picture of that person moves: its frames differ from each other."""
        taken = self.wait(lambda: self._picture(label), timeout, f"a picture of {label}")
        self.wait(lambda: self._picture(label) not in (None, taken), timeout, f"frames of {label} that move")

    def _picture(self, label: str) -> str | None:
        return self.js(
            """
            const video = [...document.querySelectorAll("video")].find((each) => each.getAttribute("aria-label") === arguments[0]);
            if (!video || video.videoWidth === 0 || video.readyState < 2) return null;
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [64, 48];
            const context = canvas.getContext("2d");
            context.drawImage(video, 0, 0, 64, 48);
            const {data} = context.getImageData(0, 0, 64, 48);
            return data.some((value, index) => index % 4 !== 3 && value > 0) ? data.join() : null;
            """,
            label,
        )

    def tracks(self) -> dict[str, int]:
        """Live tracks of microphone and camera that this page has taken. For pages that were opened with WATCH."""
        return self.js(
            "const live = (kind) => window.taken.filter((track) => track.kind === kind && track.readyState === 'live').length;"
            "return {audio: live('audio'), video: live('video'), everVideo: window.taken.filter(({kind}) => kind === 'video').length}"
        )

    def tones(self) -> int:
        """Tones that sound now."""
        return self.js("return window.tones.size")

    @contextmanager
    def size(self, width: int, height: int) -> Iterator[None]:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def screenshot(self, path: Path, width: int, height: int) -> None:
        with self.size(width, height):
            self.driver.save_screenshot(str(path))

    @contextmanager
    def dark(self) -> Iterator[None]:
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        yield
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def close(self) -> None:
        try:
            self.driver.close()
            self.browser.driver.switch_to.window(self.browser.driver.window_handles[0])
        except NoSuchElementException:
            pass


WATCH = """
window.taken = [];
window.tones = new Set();
window.dirty = [];
const devices = navigator.mediaDevices;
if (devices) {
  const ask = devices.getUserMedia.bind(devices);
  devices.getUserMedia = async (wish) => {
    const stream = await ask(wish);
    window.taken.push(...stream.getTracks());
    return stream;
  };
}
const {start, stop} = AudioBufferSourceNode.prototype;
AudioBufferSourceNode.prototype.start = function (...rest) { window.tones.add(this); return start.apply(this, rest); };
AudioBufferSourceNode.prototype.stop = function (...rest) { window.tones.delete(this); return stop.apply(this, rest); };
addEventListener("securitypolicyviolation", ({violatedDirective, blockedURI}) => window.dirty.push(`${violatedDirective} ${blockedURI}`));
addEventListener("error", ({message}) => window.dirty.push(message));
addEventListener("unhandledrejection", ({reason}) => window.dirty.push(String(reason)));
"""
"""A script that runs before the page and records the used devices, the tones and the errors."""
