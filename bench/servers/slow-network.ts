/** Forwards received bytes in order, after a delay. */
import { connect, createServer, type Socket } from 'node:net'

const delayMs = Number(process.env.DELAY_MS)
const [hostname, port] = (process.env.TARGET ?? '').split(':')

interface Held {
  readonly dueAt: number
  readonly to: Socket
  /** Null if the sender has ended. */
  readonly bytes: Buffer | null
}
const held: Held[] = []
let isWaiting = false

function hold(from: Socket, to: Socket): void {
  from.setNoDelay(true)
  const keep = (bytes: Buffer | null) => {
    held.push({ dueAt: performance.now() + delayMs, to, bytes })
    if (!isWaiting) wait()
  }
  from.on('data', keep)
  from.on('end', () => keep(null))
  from.on('error', () => to.destroy())
  from.on('close', () => keep(null))
}

function wait(): void {
  isWaiting = true
  setTimeout(forward, 1)
}

function forward(): void {
  const now = performance.now()
  let count = 0
  for (const { dueAt, to, bytes } of held) {
    if (dueAt > now) break
    count++
    if (to.destroyed || to.writableEnded) continue
    if (bytes) to.write(bytes)
    else to.end()
  }
  held.splice(0, count)
  isWaiting = false
  if (held.length > 0) wait()
}

const server = createServer({ allowHalfOpen: true }, (incoming) => {
  const outgoing = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
  hold(incoming, outgoing)
  hold(outgoing, incoming)
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  process.stdout.write(`tcp://127.0.0.1:${typeof address === 'object' ? address?.port : ''}\n`)
})
process.on('SIGTERM', () => process.exit(0))
