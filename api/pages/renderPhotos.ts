import { counted } from "../../runtime/counted.rules.ts";
import { isSimulated } from "../../modules/planting/order.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { absoluteUrl } from "../endpoints/presentTreeEvidence.ts";
import { isAllSimulated } from "./figures.ts";
import { formatDay } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import { projectId } from "./renderProjects.ts";

type Medium = Dashboard["media"][number];

const MOST_SPECIES = 4;

/** Joins names as a sentence does. */
const listNames = (names: readonly string[]): string => {
  const shown = names.slice(0, MOST_SPECIES);
  const rest = names.length - shown.length;
  return rest > 0 ? `${shown.join(", ")} and ${rest} more` : shown.join(", ");
};

/** Says what a photo or video proves. Of a simulated one the page says so. */
const explainProof = ({ isOfVerification, trees }: Medium): string =>
  isOfVerification
    ? `Evidence of the verification of ${counted(trees, "tree")}`
    : `Evidence of the planting of ${counted(trees, "tree")}`;

/** The picture of a video is its still. */
export const shownUrl = ({ type, url, thumbnailUrl }: Medium): string =>
  type === "video" ? thumbnailUrl : url;

const renderMedium = (
  medium: Medium,
  root: string,
  { showsProjects, marksSimulated }: { showsProjects: boolean; marksSimulated: boolean },
): Markup => {
  const isMarked = marksSimulated && isSimulated(medium.partner);
  const day = formatDay(medium.takenAt);
  const project = showsProjects
    ? html`<a href="#${projectId(medium.siteId)}">${medium.siteName}</a>`
    : medium.siteName;
  return html`<li id="photo-${medium.id}">
    <figure>
      <a href="${absoluteUrl(medium.url, root)}" rel="noopener noreferrer"
        ><img
          src="${absoluteUrl(shownUrl(medium), root)}"
          alt="${medium.type === "video" ? "Video" : "Photo"} from ${medium.siteName}, ${medium.country}, ${day}"
          width="960"
          height="720"
          loading="lazy"
          decoding="async"
          referrerpolicy="no-referrer"
      /></a>
      <figcaption>
        <b>${project}</b>, ${medium.country}, ${day}<br />
        ${explainProof(medium)}${isMarked ? html` <strong>(simulated)</strong>` : null}
        ${medium.species.length === 0 ? null : html`<br /><i>${listNames(medium.species)}</i>`}
      </figcaption>
    </figure>
  </li>`;
};

export const renderPhotos = (dashboard: Dashboard, root: string): Markup =>
  html`<section aria-labelledby="evidence">
    <h2 id="evidence">Latest evidence</h2>
    <ul class="photos">
      ${dashboard.media.map((medium) =>
        renderMedium(medium, root, {
          showsProjects: dashboard.sections.has("sites"),
          marksSimulated: !isAllSimulated(dashboard),
        }),
      )}
    </ul>
  </section>`;
