import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import { STORE_OPERATIONS } from "../../domain/stores/stores.ts";
import type { StoreOperation } from "../../domain/stores/stores.ts";
import { modeColumn } from "../columns.ts";
import { nothing, sql } from "../sql.ts";

/** What one key stands for. */
export type AnswerKey = AccountMode & {
  readonly operation: StoreOperation;
  readonly key: string;
};

const answerRow = z.strictObject({
  accountId: z.uuid(),
  mode: modeColumn,
  operation: z.enum(STORE_OPERATIONS),
  key: z.string(),
  /** SHA-256 in hexadecimal digits of what was asked for. */
  requestHash: z.string(),
  answer: z.string(),
});

/** The answer that a key got, byte for byte. */
export type KeptAnswer = Readonly<z.output<typeof answerRow>>;

export const findAnswers = async (
  db: CommonQueryMethods,
  keys: readonly AnswerKey[],
): Promise<readonly KeptAnswer[]> =>
  keys.length === 0
    ? []
    : db.any(sql.type(answerRow)`
        SELECT
          account_id AS "accountId",
          mode,
          operation,
          key,
          encode(request_hash, 'hex') AS "requestHash",
          answer
        FROM idempotent_answer
        JOIN json_to_recordset(${JSON.stringify(
          keys.map(({ accountId, mode, operation, key }) => ({
            account_id: accountId,
            mode,
            operation,
            key,
          })),
        )}) AS wanted (account_id uuid, mode text, operation text, key text)
          USING (account_id, mode, operation, key)
      `);

export const insertAnswers = async (
  transaction: DatabaseTransactionConnection,
  answers: readonly KeptAnswer[],
  createdAt: Date,
): Promise<void> => {
  if (answers.length === 0) {
    return;
  }
  await transaction.query(sql.prepared("insert_answers", nothing)`
    INSERT INTO idempotent_answer (account_id, mode, operation, key, request_hash, answer, created_at)
    SELECT
      account_id, mode, operation, key, decode(request_hash, 'hex'), answer, ${createdAt.toISOString()}::timestamptz
    FROM json_to_recordset(${JSON.stringify(
      answers.map(({ accountId, requestHash, ...rest }) => ({
        account_id: accountId,
        request_hash: requestHash,
        ...rest,
      })),
    )}) AS given (account_id uuid, mode text, operation text, key text, request_hash text, answer text)
  `);
};
