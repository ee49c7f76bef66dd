import { listDonations } from "../../../db/charities/donations.ts";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import { formatCents } from "../../../domain/money.ts";
import { shownIdOf } from "../../../domain/recordIds.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import type { CliContext } from "../../context.ts";
import { printList } from "../../output/print.ts";
import { sayIfMore } from "../../output/sayIfMore.ts";
import { einOf, presentDonation } from "./presentDonation.ts";

export type ListOptions = {
  readonly org: string;
  readonly mode: Mode;
  readonly limit: number;
  readonly json?: true;
};

export const listOrgDonations = async (
  { io, connections }: CliContext,
  { org, mode, limit, json }: ListOptions,
): Promise<void> => {
  const db = await connections.database();
  await getOrganization(db, org);
  const owner = { accountId: org, mode };
  const found = await listDonations(db, owner, {}, { offset: 0, limit: limit + 1 });
  printList({ io, json }, found.slice(0, limit), presentDonation, {
    id: shownIdOf,
    amount: (donation) => formatCents(donation.amountCents),
    charity: (donation) => donation.charityName,
    EIN: einOf,
    created: (donation) => donation.createdAt,
    refunded: (donation) => donation.refunded,
  });
  sayIfMore(io, found.length, limit);
};
