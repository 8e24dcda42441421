/**
 * Runs part of a test in a child process, for effects that need several processes: `kill -9`, races without a common
 * event loop. The child ends with its parent.
 *
 *   the test     const child = await startChild(new URL('./racer.fixture.ts', import.meta.url), { url })
 *                await child.request('suspend')
 *   the program  await serveParent(async ({ url }) => { …; return async (question) => answer })
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export interface Child {
  /** Rejects with the text of the program's error, or if the program exits before its response. */
  request(question: unknown): Promise<any>
  /** Resolves when the process has exited. The program does not handle SIGTERM, so that nothing finishes after it. */
  kill(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>
  /** Stops or continues the process. */
  signal(name: 'SIGSTOP' | 'SIGCONT'): void
}

type Reply = { readonly number: number; readonly answer?: unknown; readonly failure?: string }

/** @param options JSON value for the program */
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
    for (const { reject } of pending.values()) reject(new Error('the child process has exited'))
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
    signal: (name) => void child.kill(name),
    async kill(signal) {
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      child.kill(signal)
      await gone
    },
  }
}

/** The child's side: `open` creates the request handler; `startChild` waits for it. */
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
