/**
 * A tenancy in a separate process that is killed or loses a connection at a given point of an action. The point is a
 * count of statements that the action sends to any server; background work of the process is not counted.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import pg from 'pg'
import { serveParent } from '../support/child.ts'
import { Actor } from './actor.ts'
import type { Fault } from './steps.ts'
import { openTenancy } from './tenancy.ts'

interface Running {
  readonly fault: Fault
  statements: number
  /** Process id of the server's end of the cut connection. */
  cut: number | undefined
}

const running = new AsyncLocalStorage<Running>()

function injectInto(client: any, send: () => unknown): unknown {
  const current = running.getStore()
  if (!current || current.statements++ !== current.fault.afterStatements) return send()
  if (current.fault.how === 'before') process.kill(process.pid, 'SIGKILL')
  const sent = send()
  // after the statement was sent
  setImmediate(() => {
    if (current.fault.how === 'after') process.kill(process.pid, 'SIGKILL')
    current.cut = client.processID ?? 0
    client.connection.stream.destroy()
  })
  return sent
}

const { connect, query } = pg.Client.prototype as any
Object.assign(pg.Client.prototype, {
  connect(this: any, ...args: unknown[]) {
    this.connectionParameters.application_name = `life-cycle ${process.pid}`
    return injectInto(this, () => connect.apply(this, args))
  },
  query(this: any, ...args: unknown[]) {
    return injectInto(this, () => query.apply(this, args))
  },
})

let offsetMs = 0

await serveParent(async ({ url }) => {
  const actor = new Actor(await openTenancy({ url, role: 'api', offsetMs: () => offsetMs, hasMemory: false }))
  return async (question) => {
    if (question.ask === 'pid') return process.pid
    if (question.ask === 'believes') return actor.believes(question.id)
    offsetMs = question.offsetMs
    const { task, fault } = question
    if (!fault) return { result: await actor.carryOut(task) }
    const current: Running = { fault, statements: 0, cut: undefined }
    return { result: await running.run(current, () => actor.carryOut(task)), cut: current.cut }
  }
})
