/*
 * What a call of an operation sends and returns, by the operation's generated type.
 */

type JsonOf<Message> = Message extends {
  readonly content: { readonly "application/json": infer Json };
}
  ? Json
  : never;

export type BodyOf<Operation> = Operation extends { readonly requestBody?: infer Request }
  ? JsonOf<Request>
  : never;

export type QueryOf<Operation> = Operation extends {
  readonly parameters: { readonly query?: infer Query };
}
  ? Exclude<Query, undefined>
  : never;

type PathOf<Operation> = Operation extends {
  readonly parameters: { readonly path: infer Path };
}
  ? Path
  : never;

export type ResultOf<Operation> = Operation extends {
  readonly responses: { readonly 200: infer Response };
}
  ? JsonOf<Response>
  : never;

type Part<Name extends string, Value> = [Value] extends [never]
  ? { readonly [Key in Name]?: never }
  : object extends Value
    ? { readonly [Key in Name]?: Value }
    : { readonly [Key in Name]: Value };

/** The parts of a call's request. */
export type InputOf<Operation> = Part<"body", BodyOf<Operation>> &
  Part<"query", QueryOf<Operation>> &
  Part<"path", PathOf<Operation>>;

/** One record of a list. */
export type ItemOf<Result> = {
  [Field in keyof Result]: Result[Field] extends readonly (infer Item)[] ? Item : never;
}[keyof Result];

/** How an operation is called; generated. */
export type OperationTable = Readonly<
  Record<
    string,
    {
      readonly method: string;
      readonly path: string;
      /** What the operation takes idempotency keys for. */
      readonly key: "request" | "items" | null;
    }
  >
>;
