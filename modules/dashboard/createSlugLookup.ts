import type { CommonQueryMethods } from "slonik";
import { findDashboardSlugs } from "./dashboards.sql.ts";
import type { LookUp } from "../../db/batching/createLookups.ts";
import { createLookups, rememberUnknown } from "../../db/batching/createLookups.ts";

/**
 * Creates the lookup of dashboards: of the slug that a slug belongs to, which differs if it is an alias. An imported alias
 * works some seconds after the import, even if it was requested before.
 */
export const createSlugLookup = (
  db: CommonQueryMethods,
  options: { readonly rememberedMs?: number } = {},
): LookUp<string> =>
  rememberUnknown(
    createLookups((slugs) => findDashboardSlugs(db, slugs)),
    options,
  );
