/* The two tones of the page. The page computes both tones, so no file is loaded. */

/** A tone: beeps with start and end in seconds and pitches in hertz. The tone repeats after `length` seconds. */
interface Tone {
  length: number;
  beeps: { from: number; to: number; pitches: number[] }[];
  loudness: number;
}

/** The tone for the inviter while the invitee's phone rings. */
const ringback: Tone = { length: 5, beeps: [{ from: 0, to: 1, pitches: [425] }], loudness: 0.12 };
/** The ring tone for incoming calls. */
const ring: Tone = {
  length: 3, beeps: [{ from: 0, to: 0.4, pitches: [440, 480] }, { from: 0.6, to: 1, pitches: [440, 480] }], loudness: 0.25,
};
/** The fade of each beep in seconds, because an abrupt start clicks. */
const fade = 0.02;

/**
 * The events by which the various kinds of devices allow a page to make sound (HTML, section 6.4.1, activation
 * triggering input events).
 */
const touches = ["pointerdown", "pointerup", "touchend", "mousedown", "click", "keydown"];

export class Tones {
  private context: AudioContext | undefined;
  private readonly playing = new Map<Tone, AudioBufferSourceNode>();

  constructor() {
    // A newly loaded page may make no sound before the user touches the page. A touch by a finger counts only when the
    // finger is lifted, because `pointerdown` may begin a scroll. The listeners capture, so that no element, such as
    // the dialog of a call, can hide events from the listeners.
    const wake = () => {
      if (this.context?.state !== "running") void this.context?.resume().catch(() => undefined);
    };
    for (const name of touches) document.addEventListener(name, wake, { passive: true, capture: true });
  }

  ringback(isOn: boolean): void { this.set(ringback, isOn); }
  ring(isOn: boolean): void { this.set(ring, isOn); }

  private set(tone: Tone, isOn: boolean): void {
    if (isOn === this.playing.has(tone)) return;
    if (!isOn) {
      this.playing.get(tone)?.stop();
      this.playing.delete(tone);
      return;
    }
    try {
      const context = (this.context ??= new AudioContext());
      void context.resume().catch(() => undefined);
      const source = new AudioBufferSourceNode(context, { buffer: render(tone, context.sampleRate), loop: true });
      source.connect(context.destination);
      source.start();
      this.playing.set(tone, source);
    } catch {
      // The browser has no sound; the page also shows the ringing.
    }
  }
}

function render({ length, beeps, loudness }: Tone, sampleRate: number): AudioBuffer {
  const buffer = new AudioBuffer({ length: length * sampleRate, sampleRate });
  const samples = buffer.getChannelData(0);
  for (const { from, to, pitches } of beeps) {
    for (let index = Math.round(from * sampleRate); index < to * sampleRate; index += 1) {
      const time = index / sampleRate;
      const swell = Math.min(1, (time - from) / fade, (to - time) / fade);
      const wave = pitches.reduce((sum, pitch) => sum + Math.sin(2 * Math.PI * pitch * time), 0) / pitches.length;
      samples[index] = loudness * swell * wave;
    }
  }
  return buffer;
}
