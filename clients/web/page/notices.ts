import { button, byID, make } from "./dom.js";

/**
 * The notices of problems and of remedies. Each notice has a single topic, and screen readers announce each notice at
 * once.
 */
export class Notices {
  private readonly region = byID("notices");
  private readonly shown = new Map<string, HTMLElement>();

  /** `topic`: a later notice with the same topic replaces the earlier notice. */
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
