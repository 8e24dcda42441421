/** Contrast of the colours of a branding with text, as a table. */
import { Section } from '../../../console/components/base/page.tsx'
import { Status } from '../../../console/components/base/status.tsx'
import { contrastOf, isColour, MIN_RATIO } from './contrast.ts'
import { text } from './text.ts'

const WHITE = '#ffffff'
const BLACK = '#000000'
const ratio = new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1, roundingMode: 'floor' })

export function Contrast({ values: { primaryColor, accentColor } }: { values: Readonly<Record<string, unknown>> }) {
  const pairs = [
    ...(isColour(primaryColor)
      ? [
          [text.pairs.whiteOnPrimary, WHITE, primaryColor] as const,
          [text.pairs.primaryOnWhite, primaryColor, WHITE] as const,
        ]
      : []),
    ...(isColour(accentColor)
      ? [
          [text.pairs.accentOnWhite, accentColor, WHITE] as const,
          [text.pairs.blackOnAccent, BLACK, accentColor] as const,
        ]
      : []),
  ]
  return (
    <Section title={text.contrast}>
      <p className="faint">{pairs.length > 0 ? text.contrastHint : text.noColours}</p>
      {pairs.length > 0 && (
        <table className="simple">
          <thead>
            <tr>
              <th scope="col">{text.columns.colours}</th>
              <th scope="col">{text.columns.ratio}</th>
              <th scope="col">{text.columns.result}</th>
            </tr>
          </thead>
          <tbody>
            {pairs.map(([title, colour, background]) => (
              <Pair key={title} title={title} value={contrastOf(colour, background)} />
            ))}
          </tbody>
        </table>
      )}
    </Section>
  )
}

const Pair = ({ title, value }: { title: string; value: number }) => (
  <tr>
    <th scope="row">{title}</th>
    <td>{ratio.format(value)}</td>
    <td>
      <Status state="contrast" tone={value >= MIN_RATIO ? 'good' : 'bad'}>
        {value >= MIN_RATIO ? text.enough : text.tooLow}
      </Status>
    </td>
  </tr>
)
