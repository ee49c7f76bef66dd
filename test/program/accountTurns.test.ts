import test from "ava";
import { createAccountTurns } from "../../program/server/accountTurns.ts";

test("a response that ends late does not forget the requests that an account runs since", (t) => {
  const { enter, finish, end } = createAccountTurns({ maximumRunning: 1, maximumUnreadBytes: 0 });
  const late = enter("a");
  finish(late, 0);
  const other = enter("a");
  end(other);

  t.true(enter("a").isRunning);
  end(late);

  t.false(enter("a").isRunning);
});
