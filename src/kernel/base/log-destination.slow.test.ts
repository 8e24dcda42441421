/** Tests a log destination on a pipe without a reader and on a full device. */
import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { droppedLines, logDestination } from './log-destination.ts'
import { createLogger } from './logger.ts'

const PAUSES_OF_A_SECOND = 200

const ends: (() => void)[] = []
afterEach(() => {
  for (const end of ends.splice(0).reverse()) end()
})

function opened(path: string, flags: number): number {
  const fd = openSync(path, flags)
  ends.push(() => closeSync(fd))
  return fd
}

/** A named pipe: writes fail with EPIPE while it has no reader. */
function namedPipe(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tenantry-log-'))
  ends.push(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'log')
  execFileSync('mkfifo', [path])
  return path
}

function textIn(fd: number): string {
  const buffer = Buffer.alloc(1 << 16)
  return buffer.toString('utf8', 0, readSync(fd, buffer))
}

const READ = constants.O_RDONLY | constants.O_NONBLOCK

test('lines without a reader are dropped, and the next line follows their number', () => {
  const path = namedPipe()
  const first = openSync(path, READ)
  const log = createLogger({ write: logDestination(opened(path, constants.O_WRONLY)).write })
  log.info('one')
  expect(JSON.parse(textIn(first))).toMatchObject({ msg: 'one' })
  closeSync(first)
  for (const text of ['two', 'three', 'four']) log.info(text)
  const second = opened(path, READ)
  log.info('five')
  const lines = textIn(second)
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines).toMatchObject([
    { level: 40, dropped: 3, reason: 'EPIPE', msg: 'log lines were dropped' },
    { level: 30, msg: 'five' },
  ])
})

test('the report has the format of the lines', () => {
  const path = namedPipe()
  const first = openSync(path, READ)
  const { write } = logDestination(opened(path, constants.O_WRONLY), (line) => `text of ${line}`)
  closeSync(first)
  write('one\n')
  const second = opened(path, READ)
  write('two\n')
  expect(textIn(second)).toMatch(/^text of \{.*"dropped":1.*\}\ntext of two\n$/)
})

/** Runs a module with the functions of log destinations in another process. */
const run = (script: string, stdio: number[] = []): string =>
  execFileSync(
    process.execPath,
    [
      '--input-type=module',
      '--eval',
      `import { droppedLines, logDestination } from '${import.meta.resolve('./log-destination.ts')}'
       import { openSync, readSync } from 'node:fs'
       ${script}`,
    ],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit', ...stdio] },
  )

test('a full device does not end the process, which counts the lost lines', () => {
  const lost = run(`
    const { write } = logDestination(openSync('/dev/full', 'w'))
    for (let line = 0; line < 100; line += 1) write('text\\n')
    console.log(droppedLines())`)
  expect(lost).toBe('100\n')
})

test('a process reports lost lines at its end', () => {
  const path = namedPipe()
  const reader = opened(path, READ)
  const writer = opened(path, constants.O_WRONLY | constants.O_NONBLOCK)
  run(
    `const { write } = logDestination(3)
     while (droppedLines() < 7) write('x'.repeat(4000) + '\\n')
     readSync(4, Buffer.alloc(1 << 16))`,
    [writer, reader],
  )
  const line = { level: 40, dropped: 7, reason: 'EAGAIN', msg: 'log lines were dropped' }
  expect(JSON.parse(textIn(reader).trim().split('\n').at(-1) ?? '')).toMatchObject(line)
})

test('a reader that does not read blocks the process only once', () => {
  const path = namedPipe()
  const reader = opened(path, READ)
  const { write } = logDestination(opened(path, constants.O_WRONLY | constants.O_NONBLOCK))
  const line = `${'x'.repeat(4_000)}\n`
  for (let count = 0; count < 100; count += 1) write(line)
  let text = ''
  while (text.length < 60_000) text += textIn(reader)
  write('last\n')
  text += textIn(reader)
  expect(text).toMatch(/\n\{"level":40,.*"reason":"EAGAIN".*\}\nlast\n$/)
})

test('a slow reader blocks the process for a second in total, and hardly afterwards', () => {
  const path = namedPipe()
  const reader = opened(path, READ)
  const { write } = logDestination(opened(path, constants.O_WRONLY | constants.O_NONBLOCK))
  const pauses = vi.spyOn(Atomics, 'wait')
  ends.push(() => pauses.mockRestore())
  const line = `${'x'.repeat(4_000)}\n`
  const before = droppedLines()
  for (let round = 0; round < 10; round += 1) {
    for (let count = 0; count < 40; count += 1) write(line)
    textIn(reader)
  }
  write('last\n')
  expect(textIn(reader)).toMatch(/last\n$/)
  expect(droppedLines()).toBeGreaterThan(before)
  expect(pauses.mock.calls.length).toBeLessThan(2 * PAUSES_OF_A_SECOND)
})
