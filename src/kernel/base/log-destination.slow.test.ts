/** Tests a log destination on a pipe without a reader and on a full device. */
import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { logDestination } from './log-destination.ts'
import { createLogger } from './logger.ts'

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

test('a full device does not end the process', () => {
  const { write } = logDestination(opened('/dev/full', constants.O_WRONLY))
  for (let line = 0; line < 100; line += 1) write('text\n')
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
