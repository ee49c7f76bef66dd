import type { Profile } from "../../modules/accounts/profile.rules.ts";
import { formatHost } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";

/** Pages give a logo this height, or less if it is wide. Its picture has twice as many pixels. */
const LOGO_SCALE = 0.5;

export const logoUrl = (hash: string, root: string): string => `${root}/media/logos/${hash}.png`;

/** Renders the logo and the link home; null if the organization has set neither. */
export const renderBrand = (
  { logo, homeUrl }: Profile,
  name: string,
  root: string,
): Markup | null =>
  logo === null && homeUrl === null
    ? null
    : html`<div class="brand">
        ${
          logo === null
            ? null
            : html`<img
                class="logo"
                src="${logoUrl(logo.hash, root)}"
                alt="Logo of ${name}"
                width="${Math.round(logo.width * LOGO_SCALE)}"
                height="${Math.round(logo.height * LOGO_SCALE)}"
              />`
        }
        ${
          homeUrl === null
            ? null
            : html`<a class="home" href="${homeUrl}" rel="noopener">${formatHost(homeUrl)}</a>`
        }
      </div>`;
