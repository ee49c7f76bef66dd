import type { CommonQueryMethods } from "slonik";
import type { Account } from "../modules/accounts/accounts.sql.ts";
import { listFailedMeterEventIds } from "../modules/billing/meterEventReports.sql.ts";
import type { UsageItem } from "../modules/billing/reconciliation/retryUsage.ts";
import { listRecordIds } from "../modules/records/ownedRecords.sql.ts";
import { requireOneRecord } from "../modules/records/recordIds.rules.ts";
import { listRegistrationsOfOrder } from "../modules/support/recordLookups.sql.ts";
import { DomainError } from "../runtime/errors.rules.ts";
import { findNamedAccount } from "./accountOptions.ts";

/** What a command line names: an item, an organization, or registrations by an id or their order. */
export type UsageName =
  | { readonly kind: "item"; readonly item: UsageItem }
  | { readonly kind: "organization"; readonly account: Account }
  | { readonly kind: "registrations"; readonly ids: readonly [string, ...string[]] };

/** The help of an argument that names usage. */
export const USAGE_NAME =
  "name, id or Stripe customer of an organization; E5, an event; D17, a difference; the id of a registration; an order";

const ITEM = /^(?<letter>[ed])(?<id>\d{1,18})$/iu;

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
  const options = { text, accountId, limit: MAXIMUM_OF_ORDER };
  const found = await listRegistrationsOfOrder(db, options);
  return found.map(({ id }) => id);
};

/**
 * Finds what an operator names.
 * @param accountId the organization or store that has the registrations; null for any
 * @throws DomainError record_not_found if there is nothing; request_invalid if several records have the name
 */
export const findUsageName = async (
  db: CommonQueryMethods,
  text: string,
  accountId: string | null = null,
): Promise<UsageName> => {
  const { letter, id } = ITEM.exec(text)?.groups ?? {};
  if (letter !== undefined && id !== undefined) {
    const item = { letter: letter.toUpperCase() === "E" ? "E" : "D", id: BigInt(id) } as const;
    return { kind: "item", item };
  }
  const account = await findNamedAccount(db, text);
  if (account) {
    return { kind: "organization", account };
  }
  const [first, ...others] = await listRegistrations(db, text, accountId);
  if (first === undefined) {
    throw new DomainError(
      "record_not_found",
      `no organization, registration or order is named ${text}; search with \`impact find\``,
    );
  }
  return { kind: "registrations", ids: [first, ...others] };
};

/**
 * Finds all that an operator names, of registrations their failed events.
 * @param listOfOrganization lists the items of an organization that a command changes
 * @throws DomainError record_not_found if one of the names is unknown; request_invalid if several records have it
 */
export const selectUsage = async (
  db: CommonQueryMethods,
  names: readonly string[],
  listOfOrganization: (accountId: string) => Promise<readonly UsageItem[]>,
): Promise<readonly UsageItem[]> => {
  const items = new Map<string, UsageItem>();
  const add = (added: readonly UsageItem[]): void => {
    for (const item of added) {
      items.set(nameOf(item), item);
    }
  };
  for (const text of names) {
    const name = await findUsageName(db, text);
    switch (name.kind) {
      case "item":
        add([name.item]);
        break;
      case "organization":
        add(await listOfOrganization(name.account.id));
        break;
      case "registrations": {
        const ids = await listFailedMeterEventIds(db, { registrationIds: name.ids });
        add(ids.map((id) => ({ letter: "E", id })));
      }
    }
  }
  return [...items.values()];
};

/** Returns how commands name an item, such as `E5`. */
export const nameOf = ({ letter, id }: UsageItem): string => `${letter}${id}`;
