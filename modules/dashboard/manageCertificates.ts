import { randomBytes } from "node:crypto";
import { findOwnDonation } from "../charities/donations.sql.ts";
import {
  findCertificate,
  listOrderRecords,
  revokeCertificate as revoke,
  storeCertificate,
} from "./certificates.sql.ts";
import { findOwnRegistration } from "../registrations/registrations.sql.ts";
import { RECORD_KINDS } from "../records/owner.rules.ts";
import type { AccountMode, RecordKind } from "../records/owner.rules.ts";
import { MAXIMUM_CERTIFIED_RECORDS } from "./certificate.rules.ts";
import { DomainError, invalidRequest, requireFound } from "../../runtime/errors.rules.ts";
import type { Context } from "../../runtime/context.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";

/** 128 random bits cannot be guessed. */
const TOKEN_BYTES = 16;

type CertifiedRecords = Omit<Parameters<typeof storeCertificate>[1], "token" | "createdAt">;

/**
 * Returns the token of the certificate of a record or an order, creating it on first use. It stays the same until it is
 * revoked. Most requests are for a certificate that exists, and write no row.
 */
const getToken = async ({ db, clock }: Context, records: CertifiedRecords): Promise<string> => {
  const { recordIds, isOfOrder } = records;
  // Older records of an order may have been imported since its certificate was created, so any may be its first one.
  const known = await findCertificate(db, recordIds, isOfOrder);
  const certified = new Set([...(known?.recordIds ?? []), ...recordIds]);
  if (known?.recordIds.length === certified.size) {
    return known.token;
  }
  return storeCertificate(db, {
    ...records,
    token: randomBytes(TOKEN_BYTES).toString("hex"),
    recordIds: [...certified],
    createdAt: clock.now(),
  });
};

/**
 * Returns the token of a record's public certificate.
 * @param kind of records that were imported with the same id, the one that is meant
 * @throws DomainError record_not_found
 */
export const getCertificateToken = async (
  context: Context,
  { accountId, mode }: AccountMode,
  id: string,
  kind: RecordKind | null,
): Promise<string> => {
  for (const candidate of kind === null ? RECORD_KINDS : [kind]) {
    const record = await (candidate === "donation"
      ? findOwnDonation(context.db, { accountId, mode }, id)
      : findOwnRegistration(context.db, { accountId, mode, kind: candidate }, id));
    if (record) {
      return getToken(context, { accountId, recordIds: [record.id], isOfOrder: false });
    }
  }
  throw new DomainError("record_not_found", "failed to find registration or donation");
};

/**
 * Returns the token of the public certificate of a store's order. Records that were added to the order since are added to it.
 * @throws DomainError record_not_found, or request_invalid if the order has too many records
 */
export const getOrderCertificateToken = async (
  context: Context,
  { accountId, mode }: AccountMode,
  orderId: string,
): Promise<string> => {
  const isNamed = /[^#]/u.test(orderId);
  const recordIds = isNamed ? await listOrderRecords(context.db, { accountId, mode }, orderId) : [];
  if (recordIds.length === 0) {
    throw new DomainError("record_not_found", "failed to find order");
  }
  if (recordIds.length > MAXIMUM_CERTIFIED_RECORDS) {
    throw invalidRequest(
      `order_id: has more than ${MAXIMUM_CERTIFIED_RECORDS} records; request the certificates of its records`,
    );
  }
  return getToken(context, { accountId, recordIds, isOfOrder: true });
};

/**
 * Revokes a certificate's URL. Its page is gone in every process within seconds.
 * @returns the record that it was of; of an order, the first one when the certificate was created
 * @throws DomainError record_not_found if there is none with the token, or it was revoked before
 */
export const revokeCertificate = (
  { db, clock, actor }: OperatorContext,
  token: string,
): Promise<{ readonly recordId: string; readonly isOfOrder: boolean }> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const { accountId, recordId, isOfOrder } = requireFound(
      await revoke(transaction, token, now),
      "certificate not found, or already revoked",
    );
    await recordAction(transaction, actor, now, {
      action: "certificate.revoke",
      accountId,
      subject: recordId,
      details: { isOfOrder },
    });
    return { recordId, isOfOrder };
  });
