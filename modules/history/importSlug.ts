import { findDashboards, insertAlias } from "../dashboard/dashboards.sql.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { getOrganization } from "../accounts/getAccount.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { getDashboardSlug } from "../dashboard/getDashboardSlug.ts";
import type { OperatorContext } from "../accounts/context.ts";

/**
 * Lets an old slug redirect to an organization's dashboard.
 * @throws DomainError record_not_found, or request_invalid if the slug leads to another dashboard
 */
export const importSlug = (
  { db, clock, actor }: OperatorContext,
  accountId: string,
  slug: string,
): Promise<{ readonly dashboardSlug: string; readonly isNew: boolean }> =>
  db.transaction(async (transaction) => {
    await getOrganization(transaction, accountId);
    const dashboardSlug = await getDashboardSlug({ db: transaction, clock }, accountId);
    const now = clock.now();
    const isNew = await insertAlias(transaction, { slug, accountId, createdAt: now });
    const owner = (await findDashboards(transaction, [slug])).get(slug);
    if (owner?.accountId !== accountId) {
      throw invalidRequest(`the slug ${slug} leads to another dashboard`);
    }
    if (isNew) {
      await recordAction(transaction, actor, now, {
        action: "import.slug",
        accountId,
        subject: slug,
      });
    }
    return { dashboardSlug, isNew };
  });
