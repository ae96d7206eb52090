import { plain } from "../src/text.js";

/** Returns the page's element with that id (see index.html). */
export function byID<Kind extends Element = HTMLElement>(id: string): Kind {
  const element = document.querySelector<Kind>(`#${id}`);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** Creates an element. The content is always text, never markup, because the content may come from other users. */
export function make<Name extends keyof HTMLElementTagNameMap>(
  name: Name, options: { class?: string; text?: string } = {}, ...children: Node[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  if (options.class !== undefined) element.className = options.class;
  if (options.text !== undefined) element.textContent = plain(options.text);
  element.append(...children);
  return element;
}

/** Isolates a name, so that a name in a right-to-left script does not reorder its neighbors. */
export const nameOf = (name: string): HTMLElement => make("bdi", { text: shorten(name) });

/** Shortens a text, because texts of other users may be very long. */
export function shorten(text: string, limit = 80): string {
  const characters = [...text.slice(0, 2 * limit)];
  return characters.length > limit || text.length > 2 * limit ? `${characters.slice(0, limit - 1).join("")}…` : text;
}

/** Changes the text only when the text differs, because screen readers announce each change. */
export function setText(element: Element, text: string): void {
  const shown = plain(text);
  if (element.textContent !== shown) element.textContent = shown;
}

export function button(text: string, act: () => void, kind = ""): HTMLButtonElement {
  const made = make("button", { text, class: kind });
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}
