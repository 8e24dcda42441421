/** The button for sample tenants, while there is no tenant. Outside production only: the settings of the page have its path. */
import { useMutation } from '@tanstack/react-query'
import { Button } from '../../console/components/base/button.tsx'
import { client } from '../../console/data/client.ts'
import { notify } from '../../console/data/notices.ts'
import { type Problem, problemOf, unreachable } from '../../console/data/problem.ts'
import { isPermitted } from '../../console/data/session.ts'
import { settings } from '../../console/data/settings.ts'
import { text } from './text.ts'

async function createSampleData(path: string): Promise<void> {
  const response = await fetch(settings.prefix + path, { method: 'POST' }).catch(() => {
    throw unreachable()
  })
  if (!response.ok) throw await problemOf(response)
}

export function SampleData() {
  const { sampleData } = settings
  const creation = useMutation<void, Problem, string>({
    mutationFn: createSampleData,
    onSuccess: () => notify({ text: text.sampleDataCreated }),
    onError: ({ message, code }) => notify({ text: message, detail: code, isError: true }),
    onSettled: () => void client.invalidateQueries(),
  })
  if (sampleData === undefined || !isPermitted('tenants.create')) return null
  return (
    <Button isRunning={creation.isPending} onClick={() => creation.mutate(sampleData)}>
      {creation.isPending ? text.creatingSampleData : text.createSampleData}
    </Button>
  )
}
