import type { BellwireClient } from "../src/index.js";
import { button, make } from "./dom.js";
import { isComplete, summaryOf } from "./story.js";
import { timelineOf } from "./timeline.js";

/**
 * The wait before the page requests the timeline again, in milliseconds, and the number of requests. The service writes
 * entries up to a second late.
 */
const pause = 600;
const longestAttempts = 4;

let count = 0;

/** Returns the button “Why?” of a call, and the region of the timeline that the button opens. */
export function whyOf(client: BellwireClient, callID: string, about: HTMLElement, problem: (error: unknown) => string): HTMLElement[] {
  count += 1;
  const region = make("div", { class: "why" });
  region.id = `why-${count}`;
  region.hidden = true;
  about.id ||= `about-${count}`;
  let observer: ResizeObserver | undefined;
  const open = button("Why?", () => {
    const opens = region.hidden;
    region.hidden = !opens;
    open.setAttribute("aria-expanded", String(opens));
    observer?.disconnect();
    if (opens) observer = show(client, callID, region, problem);
  }, "why-button");
  open.setAttribute("aria-expanded", "false");
  open.setAttribute("aria-controls", region.id);
  open.setAttribute("aria-describedby", about.id);
  return [open, region];
}

function show(client: BellwireClient, callID: string, region: HTMLElement, problem: (error: unknown) => string): ResizeObserver {
  region.replaceChildren(make("p", { text: "Asking the service…" }));
  let width = 0;
  let redraw: () => void = () => undefined;
  const observer = new ResizeObserver(() => {
    if (region.clientWidth !== width && region.clientWidth > 0) requestAnimationFrame(redraw);
  });
  observer.observe(region);
  void (async () => {
    for (let attempt = 1; !region.hidden && region.isConnected; attempt += 1) {
      try {
        const trace = await client.trace(callID);
        redraw = () => {
          width = region.clientWidth;
          const lines: Node[] = summaryOf(trace).map((text) => make("p", { class: "summary", text }));
          if (trace.omitted > 0) lines.push(make("p", { text: `${trace.omitted} older entries were dropped.` }));
          if (trace.entries.length === 0) lines.push(make("p", { text: "The service has no timeline of this call." }));
          else lines.push(timelineOf(trace, width));
          region.replaceChildren(...lines);
        };
        redraw();
        if (isComplete(trace) || attempt >= longestAttempts) return;
      } catch (error) {
        region.replaceChildren(make("p", { text: problem(error) }));
        return;
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  })();
  return observer;
}
