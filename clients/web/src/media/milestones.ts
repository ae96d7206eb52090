import type { Call } from "../call.js";

/** How often the counters of a connection are looked at, in milliseconds, and for how long. */
const interval = 200;
const longestWatch = 30_000;

/**
 * How long the call took to reach its milestones (docs/protocol.md, section 2, Reports): the first time of each, told to the service
 * when the first frames of both sides are on their way, or when the call ends before.
 */
export class Milestones {
  private readonly times: Record<string, number> = {};
  private timer: ReturnType<typeof setInterval> | undefined;
  private isReported = false;

  constructor(private readonly call: Call) {}

  reached(name: string): void {
    this.times[name] ??= this.call.elapsed;
  }

  /** Looks for the first frame that leaves and the first one that comes. */
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
      // Of a voice call the first sound.
      const frames = wantsVideo ? entry.framesDecoded : entry.packetsReceived;
      if (isWanted && (frames ?? 0) > 0) this.reached("firstFrame");
    });
    // The other one's may come before the own one leaves.
    const isPublished = !isSending || this.times.firstFramePublished !== undefined;
    if (this.times.firstFrame !== undefined && isPublished) this.finish();
  }

  private finish(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.report();
  }

  /** The media are over. */
  stop(): void {
    this.finish();
  }

  private report(): void {
    // A page that was loaded again does not know when the call began.
    if (this.isReported || this.call.isResumed || Object.keys(this.times).length === 0) return;
    this.isReported = true;
    this.call.report(this.times).catch(() => undefined);
  }
}
