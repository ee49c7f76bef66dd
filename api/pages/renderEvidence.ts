import type { PlantedSite } from "../../modules/planting/tallies.sql.ts";
import { VERIFIED_BY_WORDS } from "../../modules/dashboard/certificate.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { absoluteUrl } from "../endpoints/presentTreeEvidence.ts";
import { formatCoordinates, formatDay, formatNumber, listSpecies } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import type { DashboardView } from "./presentDashboard.ts";
import { renderMap } from "./worldMap.ts";
import type { MapPoint } from "./worldMap.ts";

/** Projects beyond this number are behind a button, and are not on the map. */
const PROJECTS_SHOWN = 12;

const projectId = (siteId: number): string => `project-${siteId}`;

const addUp = (site: PlantedSite, other: PlantedSite): PlantedSite => ({
  ...site,
  planted: site.planted + other.planted,
  verified: site.verified + other.verified,
});

/** Adds up the trees of a site, which are counted apart for each impact factor. */
const mergeSites = (sites: readonly PlantedSite[]): readonly PlantedSite[] =>
  [...Map.groupBy(sites, ({ siteId }) => siteId).values()]
    .map((group) => group.reduce(addUp))
    .toSorted((one, other) => other.planted - one.planted);

const countTrees = (trees: number): string => counted(trees, "tree planted", "trees planted");

const explainProject = ({ planted, verified }: PlantedSite): string => {
  if (verified === 0) {
    return "Not verified yet";
  }
  return verified >= planted ? "All verified" : `${formatNumber(verified)} of them verified`;
};

const renderProject = (
  site: PlantedSite,
  number: number,
  { dashboard: { media, isSimulated } }: DashboardView,
): Markup => {
  const photo = media.find(({ siteId }) => siteId === site.siteId);
  return html`<li id="${projectId(site.siteId)}" class="sheet project">
    <span class="badge" aria-hidden="true">${number}</span>
    <h3>${site.name}</h3>
    <p>${site.region}, ${site.country}</p>
    <p><b>${countTrees(site.planted)}</b><br />${explainProject(site)}</p>
    <p class="small">
      ${isSimulated ? null : html`${site.organizationName}<br />`}
      ${formatCoordinates(site.latitude, site.longitude)}
      ${photo ? html`· <a href="#photo-${photo.id}">Photo</a>` : null}
    </p>
  </li>`;
};

const pointOf = (site: PlantedSite): MapPoint => ({
  ...site,
  trees: site.planted,
  href: `#${projectId(site.siteId)}`,
  label: `${site.name}, ${site.country}: ${countTrees(site.planted)}`,
});

/** Renders the planting projects: a map, whose points open the project, and each project in words. */
export const renderProjects = (view: DashboardView): Markup => {
  const projects = mergeSites(view.dashboard.sites);
  const rendered = projects.map((site, index) => renderProject(site, index + 1, view));
  const points = projects.slice(0, PROJECTS_SHOWN).map(pointOf);
  const further = rendered.slice(PROJECTS_SHOWN);
  return html`<section aria-labelledby="projects">
    <h2 id="projects">Where the trees are planted</h2>
    <div class="sheet">${renderMap(points, view.links.root)}</div>
    <ol class="projects">
      ${rendered.slice(0, PROJECTS_SHOWN)}
    </ol>
    ${
      further.length === 0
        ? null
        : html`<details>
            <summary>Show ${counted(further.length, "more project")}</summary>
            <ol class="projects">
              ${further}
            </ol>
          </details>`
    }
  </section>`;
};

const VERIFICATIONS_SHOWN = 6;

export const renderVerifications = ({ dashboard, links }: DashboardView): Markup | null =>
  dashboard.verifications.length === 0
    ? null
    : html`<section aria-labelledby="verifications">
        <h2 id="verifications">Who verified them</h2>
        <ul class="sheet verifications">
          ${dashboard.verifications.slice(0, VERIFICATIONS_SHOWN).map(
            ({ verifier, by, trees, latestAt, document }) =>
              html`<li>
                <b><bdi>${verifier}</bdi></b
                >: ${counted(trees, "tree")} verified ${VERIFIED_BY_WORDS[by]}, last on
                ${formatDay(latestAt)} ·
                <a href="${absoluteUrl(document, links.root)}" rel="noopener noreferrer"
                  >Document</a
                >
              </li>`,
          )}
        </ul>
      </section>`;

type Medium = Dashboard["media"][number];

/** The picture of a video is its still. */
export const shownUrl = ({ type, url, thumbnailUrl }: Medium): string =>
  type === "video" ? thumbnailUrl : url;

const renderMedium = (medium: Medium, { dashboard, links }: DashboardView): Markup => {
  const { siteName, country, trees, species } = medium;
  const day = formatDay(medium.takenAt);
  const project =
    dashboard.sites.length > 0
      ? html`<a href="#${projectId(medium.siteId)}">${siteName}</a>`
      : siteName;
  const milestone = medium.isOfVerification ? "verification" : "planting";
  return html`<li id="photo-${medium.id}">
    <figure>
      <a href="${absoluteUrl(medium.url, links.root)}" rel="noopener noreferrer"
        ><img
          src="${absoluteUrl(shownUrl(medium), links.root)}"
          alt="${medium.type === "video" ? "Video" : "Photo"} from ${siteName}, ${country}, ${day}"
          width="960"
          height="720"
          loading="lazy"
          decoding="async"
          referrerpolicy="no-referrer"
      /></a>
      <figcaption>
        <b>${project}</b>, ${country}, ${day}<br />
        Evidence of the ${milestone} of ${counted(trees, "tree")}
        ${species.length === 0 ? null : html`<br /><i>${listSpecies(species)}</i>`}
      </figcaption>
    </figure>
  </li>`;
};

export const renderPhotos = (view: DashboardView): Markup =>
  html`<section aria-labelledby="evidence">
    <h2 id="evidence">Latest evidence</h2>
    <ul class="photos">
      ${view.dashboard.media.map((medium) => renderMedium(medium, view))}
    </ul>
  </section>`;
