/** A button, and the key `e`, that saves a list with its filters as a CSV file. */
import { useState } from 'react'
import type { Input, OperationName } from '../../api/contract.ts'
import { callForResponse } from '../../data/call.ts'
import { notify } from '../../data/notices.ts'
import { toProblem } from '../../data/problem.ts'
import { Button } from './button.tsx'
import { text } from './text.ts'

interface ExportProps<Name extends OperationName> {
  readonly operation: Name
  readonly input: Input<Name>
  /** Name of the file, without `.csv`. */
  readonly file: string
}

export function ExportButton<Name extends OperationName>({ operation, input, file }: ExportProps<Name>) {
  const [isRunning, setRunning] = useState(false)
  const run = async () => {
    setRunning(true)
    try {
      const response = await callForResponse(operation, input, { headers: { accept: 'text/csv' } })
      save(await response.blob(), `${file}.csv`)
    } catch (error) {
      const { message, code } = toProblem(error)
      notify({ text: message, detail: code, isError: true })
    } finally {
      setRunning(false)
    }
  }
  return (
    <Button data-key="e" isRunning={isRunning} onClick={run}>
      {text.exportCsv}
    </Button>
  )
}

function save(content: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
