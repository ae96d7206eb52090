/*
 * The two tones of the page, made here: no file is loaded for them.
 */

/** From and to, in seconds, and how high, in hertz; the whole is repeated after `length`. */
interface Tone {
  length: number;
  beeps: { from: number; to: number; pitches: number[] }[];
  loudness: number;
}

/** What the caller hears while the other side rings. */
const ringback: Tone = { length: 5, beeps: [{ from: 0, to: 1, pitches: [425] }], loudness: 0.12 };
/** What is heard where somebody is called. */
const ring: Tone = {
  length: 3, beeps: [{ from: 0, to: 0.4, pitches: [440, 480] }, { from: 0.6, to: 1, pitches: [440, 480] }], loudness: 0.25,
};
/** In seconds: a tone that begins at once clicks. */
const fade = 0.02;

/** Each lets a page make sound, by one kind of device or another (HTML, section 6.4.1, activation triggering input events). */
const touches = ["pointerdown", "pointerup", "touchend", "mousedown", "click", "keydown"];

export class Tones {
  private context: AudioContext | undefined;
  private readonly playing = new Map<Tone, AudioBufferSourceNode>();

  constructor() {
    // A page that was just loaded may make no sound before it is touched. By a finger it is touched only when that is lifted: a
    // pointerdown may be the begin of a scroll. Captured, so that nothing in the page, as the dialog of a call, keeps one from here.
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
      // A browser without sound: what rings is seen as well.
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
