import type { CommonQueryMethods } from "slonik";
import { listOpenUsage } from "../modules/billing/meterEventReports.sql.ts";
import type { OpenUsageFilter } from "../modules/billing/meterEventReports.sql.ts";
import { findMeterEvent } from "../modules/billing/meterEvents.sql.ts";
import type { StoredMeterEvent } from "../modules/billing/meterEvents.rules.ts";
import { listRecordIds } from "../modules/records/ownedRecords.sql.ts";
import { requireOneRecord } from "../modules/records/recordIds.rules.ts";
import { parseLookup } from "../modules/support/lookup.rules.ts";
import { listFoundRegistrations } from "../modules/support/recordLookups.sql.ts";
import { DomainError } from "../runtime/errors.rules.ts";
import { findNamedAccount, requireOrganization } from "./accountOptions.ts";

/** The help of an argument that names usage. */
export const USAGE_NAME =
  "name, id or Stripe customer of an organization; E5, an event; D17, a difference; the id of a registration; an order";

const EVENT = /^[ed](?<id>\d{1,18})$/iu;

/** An order with more registrations is shown in parts by `impact find`. */
const MAXIMUM_OF_ORDER = 50;

const listRegistrations = async (
  db: CommonQueryMethods,
  text: string,
  accountId: string | null,
): Promise<readonly string[]> => {
  const ids = await listRecordIds(db, "registration", text, accountId);
  if (ids.length > 0) {
    return [requireOneRecord("registration", text, ids)];
  }
  const lookup = parseLookup({ text, accountId, limit: MAXIMUM_OF_ORDER });
  const found = await listFoundRegistrations(db, lookup, ["order", "metadata"]);
  return found.map(({ id }) => id);
};

/**
 * Finds what an operator names: an event, an organization, or registrations by an id or their order.
 * @param accountId the organization or store that has the registrations; null for any
 * @throws DomainError record_not_found if there is nothing; request_invalid if several records have the name
 */
export const findUsageName = async (
  db: CommonQueryMethods,
  text: string,
  accountId: string | null = null,
) => {
  const { id } = EVENT.exec(text)?.groups ?? {};
  if (id !== undefined) {
    return { kind: "event", id: BigInt(id) } as const;
  }
  const account = await findNamedAccount(db, text);
  if (account) {
    return { kind: "organization", account: requireOrganization(account) } as const;
  }
  const ids = await listRegistrations(db, text, accountId);
  if (ids.length === 0) {
    throw new DomainError(
      "record_not_found",
      `no organization, registration or order is named ${text}; search with \`impact find\``,
    );
  }
  return { kind: "registrations", ids } as const;
};

const matches = ({ kind, second }: StoredMeterEvent, filter: OpenUsageFilter): boolean => {
  const { start, end } = filter.span ?? { start: second, end: second + 1 };
  return (filter.kind ?? kind) === kind && start <= second && second < end;
};

/**
 * Finds all that an operator names and that matches the filter: events, and the open ones of organizations and registrations.
 * @param causes why an open event is selected
 * @throws DomainError record_not_found if one of the names is unknown; request_invalid if several records have it
 */
export const selectUsage = async (
  db: CommonQueryMethods,
  names: readonly string[],
  causes: readonly string[],
  filter: OpenUsageFilter = {},
): Promise<readonly bigint[]> => {
  const ids: bigint[] = [];
  for (const text of names) {
    const name = await findUsageName(db, text);
    if (name.kind === "event") {
      const event = await findMeterEvent(db, name.id);
      ids.push(...(event === null || matches(event, filter) ? [name.id] : []));
    } else {
      const of =
        name.kind === "organization"
          ? { accountId: name.account.id }
          : { registrationIds: name.ids };
      ids.push(...(await listOpenUsage(db, causes, { ...filter, ...of })));
    }
  }
  return [...new Set(ids)];
};
