import {
  lockEndpointsOf,
  deleteSecrets,
  endCurrentSecret,
  insertSecret,
  listSecrets,
} from "./endpoints.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { MAXIMUM_SECRETS, OLD_SECRET_HOURS } from "./webhooks.rules.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { newSecret } from "./createWebhookEndpoint.ts";
import { getOwnWebhookEndpoint } from "./getWebhookEndpoint.ts";
import { recordWebhookAction } from "./recordWebhookAction.ts";

/**
 * Replaces an endpoint's secret. The old one also signs for another day, so that receivers can change over; with
 * `revokesPrevious` it ends now, together with those before it.
 * @throws DomainError request_invalid if too many secrets sign already
 */
export const rotateWebhookSecret = (
  { db, clock, actor }: OperatorContext<Actor | null>,
  { id, accountId, mode }: WebhookEndpoint,
  { revokesPrevious }: { readonly revokesPrevious: boolean },
): Promise<{ readonly secret: string; readonly previousValidUntil: Date | null }> =>
  db.transaction(async (transaction) => {
    await lockEndpointsOf(transaction, { accountId, mode });
    const endpoint = await getOwnWebhookEndpoint(transaction, { accountId, mode }, id);
    const now = clock.now();
    const until = new Date(now.getTime() + OLD_SECRET_HOURS * HOUR_MS);
    if (revokesPrevious) {
      await deleteSecrets(transaction, id);
    } else {
      if ((await listSecrets(transaction, id, now)).length >= MAXIMUM_SECRETS) {
        throw invalidRequest(
          `${MAXIMUM_SECRETS} secrets of the endpoint sign already; wait until one expires, or revoke the previous ones`,
        );
      }
      await endCurrentSecret(transaction, id, { now, until });
    }
    const secret = newSecret();
    await insertSecret(transaction, id, secret, now);
    await recordWebhookAction(
      transaction,
      actor,
      { action: "webhook.rotate", endpoint, details: { revokesPrevious } },
      now,
    );
    return { secret, previousValidUntil: revokesPrevious ? null : until };
  });
