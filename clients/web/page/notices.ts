import { button, byID, make } from "./dom.js";

/** What is the matter, and what to do: each about one thing, said at once by a screen reader. */
export class Notices {
  private readonly region = byID("notices");
  private readonly shown = new Map<string, HTMLElement>();

  /** `topic`: a later notice about the same thing takes its place. */
  show(topic: string, text: string, action?: { text: string; act: () => void }): void {
    const known = this.shown.get(topic);
    if (known?.dataset.text === text) return;
    const notice = make("div", { class: "notice" }, make("p", { text }));
    notice.dataset.text = text;
    if (action) {
      notice.append(button(action.text, () => {
        this.clear(topic);
        action.act();
      }));
    }
    notice.append(button("Dismiss", () => this.clear(topic), "quiet"));
    if (known) known.replaceWith(notice);
    else this.region.append(notice);
    this.shown.set(topic, notice);
  }

  clear(...topics: string[]): void {
    for (const topic of topics) {
      this.shown.get(topic)?.remove();
      this.shown.delete(topic);
    }
  }
}
