/*
 * Browsers let the timers of a hidden page fire only once a minute (Chromium, after five minutes). Such timers are too
 * late for heartbeats and pings. The timers of a dedicated worker are not slowed down, so a single worker for all
 * clients of a page runs beside the page's own timers.
 */

const script = "const t={};onmessage=({data:[n,d]})=>{clearTimeout(t[n]);delete t[n];if(d>=0)t[n]=setTimeout(()=>{delete t[n];postMessage(n)},d)}";

const waiting = new Map<number, () => void>();
let worker: Worker | undefined;
let holders = 0;
let count = 0;

function dismiss(): void {
  worker?.terminate();
  worker = undefined;
}

/**
 * Keeps the worker until the returned function is called. When the browser cannot make a worker, only the page's own
 * timers run.
 */
export function holdTimers(): () => void {
  holders += 1;
  // Timers are slowed down in pages only.
  if (holders === 1 && "document" in globalThis && typeof Worker !== "undefined") {
    try {
      const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
      const made = (worker = new Worker(url));
      made.onmessage = ({ data }) => waiting.get(data as number)?.();
      // The page's Content-Security-Policy may forbid the worker.
      made.onerror = (event) => {
        event.preventDefault();
        if (made === worker) dismiss();
      };
      URL.revokeObjectURL(url);
    } catch {
      worker = undefined;
    }
  }
  let isHeld = true;
  return () => {
    if (!isHeld) return;
    isHeld = false;
    holders -= 1;
    if (holders === 0) dismiss();
  };
}

/**
 * Calls `act` once after `delay` milliseconds, by the page's timer or the worker's timer, at the earlier of the two.
 * Returns a function that cancels the call.
 */
export function after(delay: number, act: () => void): () => void {
  count += 1;
  const number = count;
  const cancel = () => {
    clearTimeout(timer);
    if (waiting.delete(number)) worker?.postMessage([number, -1]);
  };
  const fire = () => {
    cancel();
    act();
  };
  const timer = setTimeout(fire, delay);
  waiting.set(number, fire);
  worker?.postMessage([number, delay]);
  return cancel;
}
