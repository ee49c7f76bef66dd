import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import { LONGEST_NUMBER } from "./styles.ts";

/** A large number; the style sheet makes its type fit its length. */
export const renderNumber = (number: string): Markup =>
  html`<p class="number letters-${Math.min(number.length, LONGEST_NUMBER)}">${number}</p>`;
