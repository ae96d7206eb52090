import type { Call } from "../call.js";

/** The interval of reading a connection's counters, and the longest duration of reading, in milliseconds. */
const interval = 200;
const longestWatch = 30_000;

/**
 * The times at which the call reached its milestones (docs/protocol.md, section 2, Reports). The first time of each
 * milestone is reported once the first frames of both sides are on their way, or when the call ends before.
 */
export class Milestones {
  private readonly times: Record<string, number> = {};
  private timer: ReturnType<typeof setInterval> | undefined;
  private isReported = false;

  constructor(private readonly call: Call) {}

  reached(name: string): void {
    this.times[name] ??= this.call.elapsed;
  }

  /** Watches for the first sent frame and the first received frame. */
  watch(connection: RTCPeerConnection): void {
    if (this.timer !== undefined || this.isReported) return;
    const end = performance.now() + longestWatch;
    this.timer = setInterval(() => {
      if (performance.now() > end || connection.connectionState === "closed") return this.finish();
      void connection.getStats().then((stats) => this.read(stats)).catch(() => undefined);
    }, interval);
  }

  private read(stats: RTCStatsReport): void {
    const wantsVideo = this.call.media === "video";
    let isSending = false;
    stats.forEach((entry: { type: string; kind?: string; packetsSent?: number; framesDecoded?: number; packetsReceived?: number }) => {
      const isWanted = entry.kind === (wantsVideo ? "video" : "audio");
      if (entry.type === "outbound-rtp" && isWanted) {
        isSending = true;
        if ((entry.packetsSent ?? 0) > 0) this.reached("firstFramePublished");
      }
      if (entry.type !== "inbound-rtp") return;
      // In a voice call the first audio packet counts.
      const frames = wantsVideo ? entry.framesDecoded : entry.packetsReceived;
      if (isWanted && (frames ?? 0) > 0) this.reached("firstFrame");
    });
    // The remote frame may come before the own first frame leaves.
    const isPublished = !isSending || this.times.firstFramePublished !== undefined;
    if (this.times.firstFrame !== undefined && isPublished) this.finish();
  }

  private finish(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.report();
  }

  /** Reports the milestones at the end of the media. */
  stop(): void {
    this.finish();
  }

  private report(): void {
    // A reloaded page does not know when the call began.
    if (this.isReported || this.call.isResumed || Object.keys(this.times).length === 0) return;
    this.isReported = true;
    this.call.report(this.times).catch(() => undefined);
  }
}
