/*
 * What a call of an operation sends and returns, by the operation's generated type.
 */

type JsonOf<Message> = Message extends {
  readonly content: { readonly "application/json": infer Json };
}
  ? Json
  : never;

type BodyOf<Operation> = Operation extends { readonly requestBody?: infer Request }
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

/** One record of a list. */
export type ItemOf<Result> = {
  [Field in keyof Result]: Result[Field] extends readonly (infer Item)[] ? Item : never;
}[keyof Result];

type PathArguments<Path> = [Path] extends [never] ? [] : [id: string];

type PartArguments<Value> = [Value] extends [never]
  ? []
  : object extends Value
    ? [value?: Value]
    : [value: Value];

/** The arguments of an operation's method: the names in its path, its body, its query and the options, if it has them. */
export type ArgumentsOf<Operation, Options> = [
  ...PathArguments<PathOf<Operation>>,
  ...PartArguments<BodyOf<Operation>>,
  ...PartArguments<QueryOf<Operation>>,
  options?: Options,
];

/** How an operation is called; generated. */
export type OperationTable = Readonly<
  Record<
    string,
    {
      readonly method: string;
      readonly path: string;
      /** What the operation takes idempotency keys for. */
      readonly key: "request" | "items" | null;
      /** What its method accepts after the names in the path. */
      readonly takes: readonly ("body" | "query")[];
    }
  >
>;
