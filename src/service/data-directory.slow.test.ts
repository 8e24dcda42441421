import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { acquire, keptSecret, openDataDirectory, readRunning } from './data-directory.ts'

const MODULE = new URL('./data-directory.ts', import.meta.url).href

let parent: string
let directory: string
const children: ChildProcess[] = []

beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'tenantry-data-'))
  directory = openDataDirectory(join(parent, 'deep', '.tenantry'))
})

afterEach(async () => {
  for (const child of children.splice(0)) await end(child)
  rmSync(parent, { recursive: true })
})

/** A process of its own on this directory: it says one line, then waits to be ended. */
async function another(code: string): Promise<{ child: ChildProcess; output: any }> {
  const text = `
    import { acquire, keptSecret } from ${JSON.stringify(MODULE)}
    const directory = ${JSON.stringify(directory)}
    const say = (value) => console.log(JSON.stringify(value))
    ${code}
    setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  if (!child.stdout) throw new Error('no output to read')
  const [line] = await once(createInterface(child.stdout), 'line')
  return { child, output: JSON.parse(line) }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

const mode = (name: string) => statSync(join(directory, name)).mode & 0o777
const held = (lock: ReturnType<typeof acquire>) => {
  if (!lock.held) throw new Error('the lock is not ours')
  return lock
}

test('the directory is made with what it lies in, shows nothing to others, and stays out of git', () => {
  expect(mode('.') & 0o066).toBe(0)
  expect(readFileSync(join(directory, '.gitignore'), 'utf8')).toBe('*\n')
  expect(openDataDirectory(directory)).toBe(directory)
})

test('one that is there and empty stays out of git too', () => {
  const empty = join(parent, 'empty')
  mkdirSync(empty)
  openDataDirectory(empty)
  expect(readFileSync(join(empty, '.gitignore'), 'utf8')).toBe('*\n')
})

test.each(['made', 'there already'])('one that may not be written is a fault of the configuration: %s', (which) => {
  const closed = join(parent, 'closed')
  mkdirSync(closed, { mode: 0o500 })
  chmodSync(parent, 0o755)
  const isRoot = process.getuid?.() === 0
  if (isRoot) process.seteuid?.(65_534)
  try {
    const path = which === 'made' ? join(closed, '.tenantry') : closed
    expect(() => openDataDirectory(path)).toThrow(/closed.*EACCES; set TENANTRY_DATA_DIR to a directory you may write/)
  } finally {
    if (isRoot) process.seteuid?.(0)
  }
})

test('a secret is made once, kept, and readable by its owner only', () => {
  for (const name of ['admin-token', 'app-key', 'postgres-password'] as const) {
    const secret = keptSecret(directory, name)
    expect(Buffer.from(secret, name === 'app-key' ? 'base64' : 'base64url')).toHaveLength(32)
    expect(keptSecret(directory, name)).toBe(secret)
    expect(mode(name)).toBe(0o600)
  }
  expect(readdirSync(directory).sort()).toEqual(['.gitignore', 'admin-token', 'app-key', 'postgres-password'])
})

test('processes that ask for a secret at the same moment get the same one', async () => {
  const responses = await Promise.all(
    Array.from({ length: 4 }, () => another(`say(keptSecret(directory, 'admin-token'))`)),
  )
  expect(new Set(responses.map(({ output }) => output)).size).toBe(1)
})

test('an empty secret is a fault, not a reason to make another', () => {
  writeFileSync(join(directory, 'app-key'), '')
  expect(() => keptSecret(directory, 'app-key')).toThrow(/app-key is empty/)
})

test('of many starts at once exactly one gets the lock', async () => {
  const starts = await Promise.all(Array.from({ length: 5 }, () => another(`say(acquire(directory).held)`)))
  expect(starts.filter(({ output }) => output)).toHaveLength(1)
})

test('a second process is told who holds the lock, once the holder has said so', async () => {
  const lock = held(acquire(directory))
  expect((await another('say(acquire(directory))')).output).toEqual({ held: false, running: null })

  lock.announce({ url: 'http://127.0.0.1:4000', databaseUrl: 'postgres://tenantry:x@127.0.0.1:5/tenantry' })
  const { output } = await another('say(acquire(directory))')
  expect(output.held).toBe(false)
  expect(output.running).toEqual({
    pid: process.pid,
    url: 'http://127.0.0.1:4000',
    databaseUrl: 'postgres://tenantry:x@127.0.0.1:5/tenantry',
    startedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
  })
  expect(mode('running.json')).toBe(0o600)
  expect(mode('lock')).toBe(0o600)
  lock.release()
})

test('release frees the lock and takes the announcement back, once', async () => {
  const lock = held(acquire(directory))
  lock.announce({ url: null })
  lock.release()
  expect(existsSync(join(directory, 'running.json'))).toBe(false)

  const { output } = await another('say(acquire(directory).held)')
  expect(output).toBe(true)
  lock.release()
  expect(acquire(directory)).toEqual({ held: false, running: null })
})

test('kill -9 frees the lock, and what the dead process announced is forgotten', async () => {
  const { child } = await another(`
    const lock = acquire(directory)
    lock.announce({ url: 'http://127.0.0.1:1' })
    say(lock.held)`)
  expect(acquire(directory)).toMatchObject({ held: false, running: { pid: child.pid, url: 'http://127.0.0.1:1' } })

  await end(child)
  expect(existsSync(join(directory, 'running.json'))).toBe(true)
  const lock = held(acquire(directory))
  expect(existsSync(join(directory, 'running.json'))).toBe(false)
  lock.release()
})

test('an announcement of a dead process is not believed before the next holder has announced itself', async () => {
  const { child } = await another(`acquire(directory).announce({ url: null }); say(true)`)
  await end(child)
  expect(readRunning(directory)).toBeNull()
  const stale = readFileSync(join(directory, 'running.json'))
  const lock = held(acquire(directory))
  writeFileSync(join(directory, 'running.json'), stale)
  expect((await another('say(acquire(directory))')).output).toEqual({ held: false, running: null })
  lock.release()
})

test('asking again in the holding process is refused, and does not free the lock', async () => {
  const lock = held(acquire(directory))
  expect(acquire(directory).held).toBe(false)
  expect((await another('say(acquire(directory).held)')).output).toBe(false)
  lock.release()
})

test('a directory that cannot hold a lock is named', () => {
  expect(() => acquire(join(directory, 'absent'))).toThrow(/absent.lock cannot be locked/)
})
