/** Tests the output of a terminal on its streams. */
import { Readable, Writable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import type { ProcessContext } from '../process/context.ts'
import { createTerminal, type TerminalOptions } from './terminal.ts'

const CLEARED = '\r\u001b[2K'

class Sink extends Writable {
  readonly isTTY: boolean
  readonly columns = 40
  text = ''

  constructor(isTTY: boolean) {
    super()
    this.isTTY = isTTY
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.text += chunk
    done()
  }
}

function opened({
  isTTY = false,
  stdin = '',
  ...options
}: Partial<TerminalOptions> & { isTTY?: boolean; stdin?: string } = {}) {
  const [stdout, stderr] = [new Sink(isTTY), new Sink(isTTY)]
  const { signal } = new AbortController()
  const context = contextOf({ stdout, stderr }, isTTY, stdin)
  return { terminal: createTerminal({ json: false, yes: false, signal, context, ...options }), stdout, stderr }
}

const contextOf = (streams: Pick<ProcessContext, 'stdout' | 'stderr'>, isTTY: boolean, stdin = ''): ProcessContext => ({
  env: {},
  stdin: Object.assign(Readable.from([Buffer.from(stdin)]), { isTTY }),
  on: () => undefined,
  ...streams,
})

describe('progress', () => {
  test('is one line that is replaced, cut to the width, and cleared before a message', () => {
    const { terminal, stdout, stderr } = opened({ isTTY: true })
    terminal.progress('1 of 2, about 3 min left')
    terminal.progress(`2 of 2: ${'a'.repeat(100)}`)
    terminal.say('done')
    expect(stderr.text).toBe(`${CLEARED}1 of 2, about 3 min left${CLEARED}2 of 2: ${'a'.repeat(30)}…${CLEARED}done\n`)
    expect(stdout.text).toBe('')
  })

  test('is printed during a streamed result in a pipe, and not during one on the same screen', async () => {
    const here = opened({ isTTY: true })
    await here.terminal.write('half a line')
    here.terminal.progress('1 of 2')
    expect(here.stderr.text).toBe('')
    const [stdout, stderr] = [new Sink(false), new Sink(true)]
    const context = contextOf({ stdout, stderr }, true)
    const piped = createTerminal({ json: false, yes: false, signal: new AbortController().signal, context })
    await piped.write('a line')
    piped.progress('1 of 2')
    expect(stderr.text).toBe(`${CLEARED}1 of 2`)
  })

  test('is not printed without a terminal or with --json', () => {
    for (const options of [{ isTTY: false }, { isTTY: true, json: true }]) {
      const { terminal, stdout, stderr } = opened(options)
      terminal.progress('1 of 2')
      terminal.close()
      expect(stdout.text + stderr.text).toBe('')
    }
  })
})

describe('with --json', () => {
  test('table prints bytes and bigints as text', () => {
    const { terminal, stdout } = opened({ json: true })
    const at = new Date('2026-06-01T12:00:00Z')
    terminal.table([{ bytes: Buffer.from([0, 255]), large: 2n ** 64n, at, nothing: null, deep: { of: [1n] } }])
    expect(JSON.parse(stdout.text)).toEqual([
      { bytes: '\\x00ff', large: '18446744073709551616', at: at.toISOString(), nothing: null, deep: { of: ['1'] } },
    ])
  })

  test('table without rows prints an empty list or the given value, and item prints one line', async () => {
    const { terminal, stdout, stderr } = opened({ json: true })
    terminal.table([])
    terminal.table([], null, 'no rows')
    await terminal.item('words', { a: 1 })
    expect(stdout.text).toBe('[]\nnull\n{"a":1}\n')
    expect(stderr.text).toBe('')
  })
})

describe('page', () => {
  test('continues one table, with the headings above the first rows', async () => {
    const { terminal, stdout } = opened()
    for (const id of ['acme', 'globex']) await terminal.page([{ id }], [{ id, more: 1 }])
    await terminal.page([], [])
    expect(stdout.text).toBe('id\nacme\nglobex\n')
  })

  test('with --json prints each value on a line', async () => {
    const { terminal, stdout } = opened({ json: true })
    for (const id of ['acme', 'globex']) await terminal.page([{ id }], [{ id, more: 1 }])
    expect(stdout.text).toBe('{"id":"acme","more":1}\n{"id":"globex","more":1}\n')
  })
})

test('a table is wrapped to the columns of the screen', () => {
  const { terminal, stdout } = opened({ isTTY: true })
  terminal.table([{ code: 'storage.closed', remedy: 'Run tenantry doctor --fix, and see the log' }])
  const lines = stdout.text.trimEnd().split('\n')
  expect(lines.length).toBeGreaterThan(2)
  expect(lines.filter((line) => line.length > 40)).toEqual([])
  expect(stdout.text).not.toContain('…')
})

test.each([
  ['', ''],
  [' two words \n', ' two words '],
  ['one\r\n', 'one'],
  ['\tone\n\n', '\tone'],
])('secret reads the standard input %j without the end of its line', async (stdin, secret) => {
  const { terminal } = opened({ stdin })
  expect(await terminal.secret('Token')).toBe(secret)
})

test('table without rows prints a message on standard error', () => {
  const { terminal, stdout, stderr } = opened()
  terminal.table([])
  terminal.table([], null, 'no rows')
  expect({ stdout: stdout.text, stderr: stderr.text }).toEqual({ stdout: '', stderr: 'none\nno rows\n' })
})

test('confirm returns true with --yes, and rejects without a terminal', async () => {
  await expect(opened({ yes: true }).terminal.confirm('Really?')).resolves.toBe(true)
  await expect(opened().terminal.confirm('Really?')).rejects.toMatchObject({
    code: 'E_INVALID_REQUEST',
    message: expect.stringContaining('--yes'),
  })
})

describe('a list', () => {
  async function* numbers(count: number, failure?: Error) {
    for (let n = 1; n <= count; n++) yield { n, text: `line one\nline ${n}` }
    if (failure) throw failure
  }
  const rowOf = ({ n }: { n: number }) => ({ n })

  test('is the JSON of its array', async () => {
    for (const count of [0, 1, 3]) {
      const { terminal, stdout } = opened({ json: true })
      await terminal.list(numbers(count), rowOf)
      expect(stdout.text).toBe(`${JSON.stringify(await Array.fromAsync(numbers(count)), null, 2)}\n`)
    }
  })

  test('of more than 1,000 rows is one table, with the headings above the first row', async () => {
    const { terminal, stdout, stderr } = opened()
    await terminal.list(numbers(2_001), rowOf)
    const lines = stdout.text.trimEnd().split('\n')
    expect([lines.length, lines[0]?.trim(), lines[1]?.trim()]).toEqual([2_002, 'n', '1'])
    expect(lines.filter((line) => line.trim() === 'n')).toHaveLength(1)
    expect(lines.slice(-2)).toEqual(['2000', '2001'])
    expect(stderr.text).toBe('')
  })

  test('of nothing is reported as a message', async () => {
    const { terminal, stdout, stderr } = opened()
    await terminal.list(numbers(0), rowOf)
    expect([stdout.text, stderr.text]).toEqual(['', 'none\n'])
  })

  test('that fails is printed up to the failure, as valid JSON too', async () => {
    for (const json of [false, true]) {
      const { terminal, stdout } = opened({ json })
      await expect(terminal.list(numbers(2, new Error('gone')), rowOf)).rejects.toThrow('gone')
      if (json) expect(JSON.parse(stdout.text)).toMatchObject([{ n: 1 }, { n: 2 }])
      else expect(stdout.text).toBe('n\n1\n2\n')
    }
  })
})
