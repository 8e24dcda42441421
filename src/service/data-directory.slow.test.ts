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

/** A separate process on this directory: prints one line, then waits to be ended. */
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
  if (!lock.held) throw new Error('the lock was not acquired')
  return lock
}

test('creates the directory with its parents, private and ignored by git', () => {
  expect(mode('.') & 0o066).toBe(0)
  expect(readFileSync(join(directory, '.gitignore'), 'utf8')).toBe('*\n')
  expect(openDataDirectory(directory)).toBe(directory)
})

test('makes git ignore an existing empty directory', () => {
  const empty = join(parent, 'empty')
  mkdirSync(empty)
  openDataDirectory(empty)
  expect(readFileSync(join(empty, '.gitignore'), 'utf8')).toBe('*\n')
})

test.each(['made', 'existing content'])(
  'reports an unwritable directory as an error of the configuration: %s',
  (which) => {
    const closed = join(parent, 'closed')
    mkdirSync(closed, { mode: 0o500 })
    chmodSync(parent, 0o755)
    const isRoot = process.getuid?.() === 0
    if (isRoot) process.seteuid?.(65_534)
    try {
      const path = which === 'made' ? join(closed, '.tenantry') : closed
      expect(() => openDataDirectory(path)).toThrow(
        /Cannot write to .*closed.*EACCES.*Set TENANTRY_DATA_DIR to a writable directory/,
      )
    } finally {
      if (isRoot) process.seteuid?.(0)
    }
  },
)

test('creates a secret once, keeps it, and lets only its owner read it', () => {
  for (const name of ['admin-token', 'app-key', 'postgres-password'] as const) {
    const secret = keptSecret(directory, name)
    expect(Buffer.from(secret, name === 'app-key' ? 'base64' : 'base64url')).toHaveLength(32)
    expect(keptSecret(directory, name)).toBe(secret)
    expect(mode(name)).toBe(0o600)
  }
  expect(readdirSync(directory).sort()).toEqual(['.gitignore', 'admin-token', 'app-key', 'postgres-password'])
})

test('concurrent processes get the same secret', async () => {
  const responses = await Promise.all(
    Array.from({ length: 4 }, () => another(`say(keptSecret(directory, 'admin-token'))`)),
  )
  expect(new Set(responses.map(({ output }) => output)).size).toBe(1)
})

test('rejects an empty secret instead of creating another one', () => {
  writeFileSync(join(directory, 'app-key'), '')
  expect(() => keptSecret(directory, 'app-key')).toThrow(/app-key is empty/)
})

test('exactly one of many concurrent starts gets the lock', async () => {
  const starts = await Promise.all(Array.from({ length: 5 }, () => another(`say(acquire(directory).held)`)))
  expect(starts.filter(({ output }) => output)).toHaveLength(1)
})

test('a second process learns the holder of the lock after its announcement', async () => {
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

test('release frees the lock and removes the announcement, once', async () => {
  const lock = held(acquire(directory))
  lock.announce({ url: null })
  lock.release()
  expect(existsSync(join(directory, 'running.json'))).toBe(false)

  const { output } = await another('say(acquire(directory).held)')
  expect(output).toBe(true)
  lock.release()
  expect(acquire(directory)).toEqual({ held: false, running: null })
})

test('kill -9 frees the lock, and the announcement of the dead process is ignored', async () => {
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

test('ignores the announcement of a dead process until the next holder has announced itself', async () => {
  const { child } = await another(`acquire(directory).announce({ url: null }); say(true)`)
  await end(child)
  expect(readRunning(directory)).toBeNull()
  const stale = readFileSync(join(directory, 'running.json'))
  const lock = held(acquire(directory))
  writeFileSync(join(directory, 'running.json'), stale)
  expect((await another('say(acquire(directory))')).output).toEqual({ held: false, running: null })
  lock.release()
})

test('rejects a second acquisition in the holding process without freeing the lock', async () => {
  const lock = held(acquire(directory))
  expect(acquire(directory).held).toBe(false)
  expect((await another('say(acquire(directory).held)')).output).toBe(false)
  lock.release()
})

test('names a directory that cannot hold a lock', () => {
  expect(() => acquire(join(directory, 'absent'))).toThrow(/Cannot lock .*absent.lock/)
})
