/** One call of a command of an operation: question, call, wait for its job, output. */
import { allPages } from './all-pages.ts'
import { type Caller, checked } from './caller.ts'
import type { CommandInput, Terminal } from './commands.ts'
import type { AnyOperation, Call, CallInput, CommandForm, Reply, Waiting } from './operation.ts'
import { keyOf } from './option-values.ts'

export interface CommandCall {
  readonly operation: AnyOperation
  readonly form: CommandForm
  readonly caller: Caller
}

export async function callCommand(
  { operation, form, caller }: CommandCall,
  input: Required<CallInput>,
  given: CommandInput,
): Promise<void> {
  const { terminal, signal } = given
  const { question, wait } = form
  const call: Call = async (one, request) => (await caller.call(one, request)).body
  if (question) {
    checked(operation, input)
    const text = await question(input, call)
    if (text !== undefined && !(await terminal.confirm(text))) return
  }
  const pages = () => allPages((query) => call(operation, { ...input, query }), input.query, signal)
  if (form.readsAllPages) {
    const data = (await Array.fromAsync(pages())).flatMap((page) => page.data)
    return terminal.table(form.rows?.({ data }) ?? data, data)
  }
  if (given.options.all) {
    let isEmpty = true
    for await (const page of pages()) {
      await terminal.page(form.rows?.(page) ?? page.data, page.data)
      isEmpty &&= page.data.length === 0
    }
    if (isEmpty && !terminal.isJson) terminal.say('none')
    return
  }
  const reply = await caller.call(operation, input)
  const isDetached = wait !== undefined && given.options[keyOf(wait.option.flags)] === true
  const state = wait?.started ? await wait.started(reply, call) : reply.body
  const isWaiting = wait !== undefined && !isDetached && wait.isPending(state)
  const ended = isWaiting ? await settled({ operation, form, caller }, wait, { reply, state, call }, given) : state
  print(operation, wait?.result ? await wait.result(ended, call) : ended, form, input, terminal)
  const failure = wait ? wait.failure(ended) : form.failure?.(ended)
  if (failure) throw failure
}

/** Waits for the job of a call, and returns its state. */
async function settled(
  { operation, caller }: CommandCall,
  wait: Waiting,
  { reply, state, call }: { reply: Reply; state: unknown; call: Call },
  { options, terminal, signal }: CommandInput,
): Promise<unknown> {
  const show = (now: unknown) => {
    if (wait.isPending(now)) terminal.progress(wait.progress(now))
  }
  show(state)
  const seconds: unknown = options[keyOf(wait.option.flags)]
  const until = typeof seconds === 'number' ? AbortSignal.any([signal, AbortSignal.timeout(seconds * 1_000)]) : signal
  let isUnknown = false
  const read = async () => {
    isUnknown = true
    const now = await wait.read(state, call)
    isUnknown = false
    show(now)
    return now
  }
  const isSettled = async () => !wait.isPending(await read())
  try {
    await caller.settle({ operation, reply, signal: until, isSettled, state, work: wait.work, show })
    signal.throwIfAborted()
    return await read()
  } finally {
    if ((signal.aborted || isUnknown) && wait.interrupted) terminal.say(wait.interrupted(state))
  }
}

function print(
  { shownOnce = [] }: AnyOperation,
  reply: any,
  { rows, record, message }: CommandForm,
  input: Required<CallInput>,
  terminal: Terminal,
): void {
  const table = rows?.(reply) ?? (Array.isArray(reply?.data) ? reply.data : undefined)
  if (table) terminal.table(table, reply)
  else terminal.record(record?.(reply, input) ?? reply ?? input.params)
  const text = message?.(reply)
  if (text) terminal.say(text)
  for (const name of shownOnce.filter((name) => reply?.[name] === undefined)) {
    terminal.say(`The ${name} was in a lost response and is not shown again. Replace it, or create another.`)
  }
  if (reply?.nextCursor) terminal.say(`more: --cursor ${reply.nextCursor}`)
}
