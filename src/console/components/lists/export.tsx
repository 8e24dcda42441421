/** Downloads all items of a list that match its filters, as CSV or as JSON lines. Key: `e` for CSV. */
import { useState } from 'react'
import type { Input, OperationName } from '../../api/contract.ts'
import { callForResponse } from '../../data/call.ts'
import { notify } from '../../data/notices.ts'
import { toProblem } from '../../data/problem.ts'
import { Button } from '../base/button.tsx'
import { text } from '../base/text.ts'

const FORMATS = { csv: 'text/csv', ndjson: 'application/x-ndjson' } as const
type Format = keyof typeof FORMATS

interface ExportProps<Name extends OperationName> {
  readonly name: Name
  readonly input: Input<Name>
  /** Name of the file, without its extension. */
  readonly file: string
}

export function ExportButtons<Name extends OperationName>({ name, input, file }: ExportProps<Name>) {
  const [running, setRunning] = useState<Format>()
  const run = async (format: Format) => {
    setRunning(format)
    try {
      const response = await callForResponse(name, input, { headers: { accept: FORMATS[format] } })
      save(await response.blob(), `${file}.${format}`)
    } catch (error) {
      const { message, code } = toProblem(error)
      notify({ text: message, detail: code, isError: true })
    } finally {
      setRunning(undefined)
    }
  }
  return (
    <>
      <Button shortcut="e" isRunning={running === 'csv'} onClick={() => run('csv')}>
        {text.exportCsv}
      </Button>
      <Button isRunning={running === 'ndjson'} onClick={() => run('ndjson')}>
        {text.exportJson}
      </Button>
    </>
  )
}

function save(content: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href))
}
