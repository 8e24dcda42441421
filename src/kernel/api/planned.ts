/** Commands with a plan: they print it, and execute it only with `--yes`. */
import type { CommandInput } from './commands.ts'
import type { Call, CallInput, PlanForm } from './operation.ts'

/** Prints the plan. Returns the body of the call that executes it; undefined if only the plan is wanted. */
export async function planned(
  { operation, request, text, failure, body }: PlanForm,
  input: CallInput,
  { options, terminal }: CommandInput,
  call: Call,
): Promise<unknown> {
  const isExecuted = terminal.isConfirmed && !options.dryRun
  const plan = await call(operation, { ...input, body: request(input.body) })
  if (!isExecuted && terminal.isJson) terminal.record(plan)
  else if (!terminal.isJson) await terminal.write(text(plan))
  const rejection = failure(plan)
  if (rejection) throw rejection
  if (isExecuted) return body(plan, input.body)
  terminal.say('nothing was changed; --yes executes the plan')
  return undefined
}
