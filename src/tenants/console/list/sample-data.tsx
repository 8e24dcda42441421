/** The button for sample tenants, while there is no tenant. Outside production only: the settings of the page have its path. */
import { useState } from 'react'
import { Button } from '../../../console/components/base/button.tsx'
import { client } from '../../../console/data/client.ts'
import { notify } from '../../../console/data/notices.ts'
import { problemOf, toProblem, unreachable } from '../../../console/data/problem.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { settings } from '../../../console/data/settings.ts'
import { text } from '../base/text.ts'

async function createSampleData(path: string): Promise<void> {
  const response = await fetch(settings.prefix + path, { method: 'POST' }).catch(() => {
    throw unreachable()
  })
  if (!response.ok) throw await problemOf(response)
}

export function SampleData() {
  const { sampleData } = settings
  const [isRunning, setRunning] = useState(false)
  const create = async (path: string) => {
    setRunning(true)
    try {
      await createSampleData(path)
      notify({ text: text.sampleDataCreated })
    } catch (error) {
      const { message, code } = toProblem(error)
      notify({ text: message, detail: code, isError: true })
    } finally {
      setRunning(false)
      void client.invalidateQueries()
    }
  }
  if (sampleData === undefined || !isPermitted('tenants.create')) return null
  return (
    <Button isRunning={isRunning} onClick={() => create(sampleData)}>
      {isRunning ? text.creatingSampleData : text.createSampleData}
    </Button>
  )
}
