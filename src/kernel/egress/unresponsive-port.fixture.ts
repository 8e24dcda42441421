/** A port of a stopped process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { onTestFinished } from 'vitest'

const HALTED = `require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () {
  console.log(this.address().port)
})`

/** A port where connections are neither accepted nor refused: its process is stopped, and its queue is full. */
export async function unresponsivePort(): Promise<number> {
  const child = spawn(process.execPath, ['-e', HALTED], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const [line] = await once(child.stdout, 'data')
  child.kill('SIGSTOP')
  const port = Number(String(line))
  const waiting = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => undefined))
  onTestFinished(() => {
    for (const socket of waiting) socket.destroy()
  })
  await Promise.all(waiting.slice(0, 2).map((socket) => once(socket, 'connect')))
  return port
}
