/**
 * A process of its own for a test: what only several processes show (`kill -9`, a race without a common event loop) is
 * shown with real ones. It ends when its parent does.
 *
 *   the test     const child = await startChild(new URL('./racer.fixture.ts', import.meta.url), { url })
 *                await child.request('suspend')
 *   the program  await serveParent(async ({ url }) => { …; return async (question) => answer })
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export interface Child {
  /** Rejects with the text of what the program throws, or when it is gone before it has answered. */
  request(question: unknown): Promise<any>
  /** Resolves when the process is gone. SIGTERM lets nothing finish either: the program does not handle it. */
  kill(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>
}

type Reply = { readonly number: number; readonly answer?: unknown; readonly failure?: string }

/** @param options handed to the program; anything that JSON can hold. */
export async function startChild(program: URL, options: unknown): Promise<Child> {
  const child = fork(fileURLToPath(program), [JSON.stringify(options)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const pending = new Map<number, { resolve: (answer: unknown) => void; reject: (error: Error) => void }>()
  let asked = 0
  child.on('message', ({ number, answer, failure }: Reply) => {
    const waiting = pending.get(number)
    pending.delete(number)
    if (failure === undefined) waiting?.resolve(answer)
    else waiting?.reject(new Error(failure))
  })
  child.on('exit', () => {
    for (const { reject } of pending.values()) reject(new Error('the child process is gone'))
    pending.clear()
  })
  const replyTo = (number: number) =>
    new Promise<any>((resolve, reject) => {
      pending.set(number, { resolve, reject })
    })
  await replyTo(0)
  return {
    request(question) {
      const number = ++asked
      const answer = replyTo(number)
      child.send({ number, question })
      return answer
    },
    async kill(signal) {
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      child.kill(signal)
      await gone
    },
  }
}

/** The other end: `open` makes what answers; its first promise kept is what `startChild` waits for. */
export async function serveParent(open: (options: any) => Promise<(question: any) => Promise<unknown>>): Promise<void> {
  process.on('disconnect', () => process.exit())
  const say = (reply: Reply) => process.send?.(reply)
  const sendReply = (number: number, answer: Promise<unknown>) =>
    answer.then(
      (value) => say({ number, answer: value }),
      (error) => say({ number, failure: String(error?.code ?? error?.message ?? error) }),
    )
  const opened = open(JSON.parse(process.argv[2] ?? 'null'))
  process.on('message', async ({ number, question }: { number: number; question: unknown }) => {
    const answer = await opened
    await sendReply(number, answer(question))
  })
  await sendReply(
    0,
    opened.then(() => undefined),
  )
}
