import { plain } from "../src/text.js";

/** The element of the page with that id; index.html has it. */
export function byID<Kind extends Element = HTMLElement>(id: string): Kind {
  const element = document.querySelector<Kind>(`#${id}`);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** A new element. What is to be read in it is text, never markup: it may come from others. */
export function make<Name extends keyof HTMLElementTagNameMap>(
  name: Name, options: { class?: string; text?: string } = {}, ...children: Node[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  if (options.class !== undefined) element.className = options.class;
  if (options.text !== undefined) element.textContent = plain(options.text);
  element.append(...children);
  return element;
}

/** A name by itself, so that one written from right to left does not turn round what stands beside it. */
export const nameOf = (name: string): HTMLElement => make("bdi", { text: shorten(name) });

/** What others send has no end of its own. */
export function shorten(text: string, limit = 80): string {
  const characters = [...text.slice(0, 2 * limit)];
  return characters.length > limit || text.length > 2 * limit ? `${characters.slice(0, limit - 1).join("")}…` : text;
}

/** Changes only what differs: a screen reader says what changes. */
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
