import { importSlug } from "../../../services/history/importSlug.ts";
import type { CliContext } from "../../context.ts";
import { say } from "../../io.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson } from "../../output/print.ts";

export type ImportSlugOptions = ChangeOptions & { readonly org: string };

export const runImportSlug = async (
  context: CliContext,
  slug: string,
  options: ImportSlugOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openChange(context, options);
  const { dashboardSlug, isNew } = await importSlug(deps, options.org, slug);
  if (options.json) {
    printJson(io, { slug, dashboard_slug: dashboardSlug, new: isNew });
  }
  say(
    io,
    slug === dashboardSlug
      ? `/dashboard/${slug} is the dashboard itself.`
      : `/dashboard/${slug} redirects to /dashboard/${dashboardSlug}${isNew ? "" : " already"}.`,
  );
};
