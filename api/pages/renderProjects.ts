import type { PlantedSite } from "../../modules/planting/tallies.sql.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { isSimulated } from "../../modules/planting/order.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { isAllSimulated } from "./figures.ts";
import { formatCoordinates, formatNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import { renderMap } from "./worldMap.ts";

/** Projects beyond this number are behind a button, and are not on the map. */
const PROJECTS_SHOWN = 12;

export const projectId = (siteId: number): string => `project-${siteId}`;

/** Adds up the trees of a site, which are counted apart for each impact factor. */
const mergeSites = (sites: readonly PlantedSite[]): readonly PlantedSite[] => {
  const merged = new Map<number, PlantedSite>();
  for (const site of sites) {
    const known = merged.get(site.siteId);
    merged.set(
      site.siteId,
      known
        ? {
            ...known,
            planted: known.planted + site.planted,
            verified: known.verified + site.verified,
          }
        : site,
    );
  }
  return [...merged.values()].toSorted((one, other) => other.planted - one.planted);
};

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
  { media, sections }: Dashboard,
  marksSimulated: boolean,
): Markup => {
  const photo = sections.has("photos")
    ? media.find(({ siteId }) => siteId === site.siteId)
    : undefined;
  return html`<li id="${projectId(site.siteId)}" class="sheet project">
    <span class="badge" aria-hidden="true">${number}</span>
    <h3>${site.name}</h3>
    <p>${site.region}, ${site.country}</p>
    <p><b>${countTrees(site.planted)}</b><br />${explainProject(site)}</p>
    <p class="small">
      ${isSimulated(site.partner) ? null : html`${site.organizationName}<br />`}
      ${formatCoordinates(site.latitude, site.longitude)}
      ${photo === undefined ? null : html`· <a href="#photo-${photo.id}">Photo</a>`}
      ${marksSimulated && isSimulated(site.partner) ? html`<br /><strong>Simulated</strong>` : null}
    </p>
  </li>`;
};

/** Renders the planting projects: a map, whose points open the project, and each project in words. */
export const renderProjects = (dashboard: Dashboard, base: string): Markup => {
  const projects = mergeSites(dashboard.sites);
  const marksSimulated = !isAllSimulated(dashboard);
  const rendered = projects.map((site, index) =>
    renderProject(site, index + 1, dashboard, marksSimulated),
  );
  const points = projects.slice(0, PROJECTS_SHOWN).map((site, index) => ({
    latitude: site.latitude,
    longitude: site.longitude,
    trees: site.planted,
    number: index + 1,
    href: `#${projectId(site.siteId)}`,
    label: `${site.name}, ${site.country}: ${countTrees(site.planted)}`,
  }));
  return html`<section aria-labelledby="projects">
    <h2 id="projects">Where the trees are planted</h2>
    <div class="sheet">${renderMap(points, `${base}/world.svg`)}</div>
    <ol class="projects">
      ${rendered.slice(0, PROJECTS_SHOWN)}
    </ol>
    ${
      rendered.length > PROJECTS_SHOWN
        ? html`<details>
            <summary>Show ${counted(rendered.length - PROJECTS_SHOWN, "more project")}</summary>
            <ol class="projects">
              ${rendered.slice(PROJECTS_SHOWN)}
            </ol>
          </details>`
        : null
    }
  </section>`;
};
