/**
 * Writes the result of a command to standard output, as text or JSON; messages, progress and confirmation prompts go to
 * standard error.
 */
import { once } from 'node:events'
import { text as allOf } from 'node:stream/consumers'
import colors from 'picocolors'
import type { Terminal } from '../../kernel/api/commands.ts'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { ProcessContext } from '../process/context.ts'
import { Interrupted, interruptible } from '../process/stop-signal.ts'
import { usesColor } from './color.ts'
import { cut, jsonText, recordText, tableText, visible } from './table.ts'

/** Of a terminal that does not know its width. */
const DEFAULT_COLUMNS = 80

/** Rows of a long list that are printed together. */
const ROWS_AT_ONCE = 1_000

type Rows = Parameters<typeof tableText>[0]

const CLEAR_LINE = '\r\u001b[2K'

export interface TerminalOptions {
  readonly json: boolean
  readonly yes: boolean
  readonly signal: AbortSignal
  readonly context: ProcessContext
}

export interface ProgramTerminal extends Terminal {
  /** Prints `text`, or with `--json` the value. */
  print(text: string, value: unknown): void
  /** Reads a secret at the terminal without echo, or all of standard input without the end of its line. */
  secret(question: string): Promise<string>
  /** Removes the progress line. */
  close(): void
}

export function createTerminal({ json, yes, signal, context }: TerminalOptions): ProgramTerminal {
  const { stdin, stdout, stderr } = context
  const showsProgress = stderr.isTTY && !json
  const { dim } = colors.createColors(usesColor(stdout, context))
  let hasProgress = false
  /** Whether parts of the result are on the same screen: clearing progress would delete the end of the last part. */
  let isTaken = false

  const close = () => {
    if (hasProgress) stderr.write(CLEAR_LINE)
    hasProgress = false
  }
  const say = (text: string) => {
    close()
    stderr.write(`${text}\n`)
  }
  /** Rows are wrapped on a screen. In a pipe each row is one line. */
  const maxWidth = stdout.isTTY ? stdout.columns || DEFAULT_COLUMNS : undefined
  /** Of the table that `page` or `list` prints. */
  const widths = new Map<string, number>()
  const print = (text: string, value: unknown) => {
    close()
    stdout.write(json ? `${jsonText(value, 2)}\n` : text)
  }

  const send = async (chunk: string) => {
    close()
    if (!stdout.write(chunk)) await once(stdout, 'drain', { signal })
  }
  const write = async (chunk: string) => {
    isTaken = stdout.isTTY === true
    await send(chunk)
  }

  const tableOf = (rows: Rows) => tableText(rows, { heading: dim, maxWidth })
  const pageOf = (rows: Rows) => (rows.length === 0 ? '' : tableText(rows, { heading: dim, maxWidth, widths }))

  const listJson = async (values: AsyncIterable<unknown>) => {
    let isEmpty = true
    try {
      for await (const value of values) {
        await send(`${isEmpty ? '[' : ','}\n  ${jsonText(value, 2).replaceAll('\n', '\n  ')}`)
        isEmpty = false
      }
    } finally {
      stdout.write(isEmpty ? '[]\n' : '\n]\n')
    }
  }

  const listText: Terminal['list'] = async (values, rowOf) => {
    let rows: Rows[number][] = []
    let isEmpty = true
    try {
      for await (const value of values) {
        isEmpty = false
        if (rows.push(rowOf(value)) < ROWS_AT_ONCE) continue
        await send(pageOf(rows))
        rows = []
      }
    } finally {
      close()
      stdout.write(pageOf(rows))
    }
    if (isEmpty) say('none')
  }

  return {
    input: stdin,
    close,
    say,
    print,
    isJson: json,
    isConfirmed: yes,
    table(rows, value = rows, words = 'none') {
      if (json) print('', value)
      else if (rows.length === 0) say(words)
      else print(tableOf(rows), value)
    },
    list: (values, rowOf) => (json ? listJson(values) : listText(values, rowOf)),
    page: (rows, values) => send(json ? values.map((value) => `${jsonText(value)}\n`).join('') : pageOf(rows)),
    record: (value) => print(json ? '' : recordText(value, dim), value),
    write,
    item: (text, value) => write(`${json ? jsonText(value) : text}\n`),
    progress(text) {
      if (!showsProgress || isTaken) return
      stderr.write(CLEAR_LINE + cut(visible(text), (stderr.columns || DEFAULT_COLUMNS) - 1))
      hasProgress = true
    },
    async prompt(label, names) {
      close()
      const { runPrompt } = await import('./prompt.ts')
      await runPrompt(label, names, signal, context)
    },
    async secret(question) {
      close()
      if (!stdin.isTTY) return (await interruptible(allOf(stdin), signal, 0)).replace(/[\r\n]+$/, '')
      const { password, isCancel } = await import('@clack/prompts')
      const answer = await password({ message: visible(question), input: stdin, output: stderr, signal })
      if (isCancel(answer)) throw new Interrupted('interrupted')
      return answer
    },
    async confirm(question) {
      close()
      if (yes) return true
      if (!stdin.isTTY || !stderr.isTTY) {
        throw InvalidRequest(`Without a terminal, give --yes to confirm: ${question}`)
      }
      const { confirm, isCancel } = await import('@clack/prompts')
      const answer = await confirm({
        message: visible(question),
        initialValue: false,
        input: stdin,
        output: stderr,
        signal,
      })
      if (isCancel(answer)) throw new Interrupted('interrupted')
      if (!answer) say('nothing was changed')
      return answer
    },
  }
}
