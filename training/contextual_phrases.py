"""Phrases of users and agents for generated dialogues: answers, follow-ups, digressions, questions, confirmations."""


def _listed(text: str) -> tuple[str, ...]:
    """Splits the text at the bars."""
    return tuple(" ".join(phrase.split()) for phrase in text.split("|"))


SLOTS = _listed(
    """
    name | date | order number | account number | e-mail address | phone number | zip code | address | city | time |
    amount | size | color | reason | reference code | date of birth | destination | budget | card type | model | number of
    people | language | last four digits | start date | password hint | currency | preferred time | quantity | delivery
    method | title
    """
)
QUESTIONS = _listed(
    """
    What is the {slot}? | Could you tell me the {slot}? | Please give me the {slot}. | May I have your {slot}, please? |
    Which {slot} would you like? | Sure. What's your {slot}? | Happy to help with {topic}. What is the {slot}? | For
    {topic} I need the {slot}. What is it? | What {slot} should I use? | Okay, {topic}. Can you provide the {slot}? | And
    the {slot}? | Do you know the {slot}? | Great, which {slot}? | I can do that. First, your {slot}? | Got it. What's the
    {slot} for {topic}? | Can I get your {slot} so I can look into {topic}? | Please enter the {slot} to continue.
    """
)
CONFIRMING = _listed(
    """
    Is that correct? | Just to confirm, this is about {topic}, right? | Shall I go ahead? | Do you want me to proceed? |
    Would you like the first option or the second one? | Should I do that for you now? | Please confirm: {slot} as you
    said. Is this okay? | I found three options for {topic}. Would you like to hear them? | That will cost $25. Do you
    want to continue? | Would you like me to send you the details? | Are you sure? | Does that work for you? | Do you mean
    the one from last week? | Can you describe the problem in more detail? | Have you tried it before?
    """
)
DONE = _listed(
    """
    Done. | All right, that's done. | Your {topic} request was completed successfully. | I've updated the {slot}. | It has
    been sent to you. | Your request has been submitted. | You're all set. | I have booked it for you. | That is
    confirmed. | I've cancelled it. | It was processed on Monday and should arrive in 3 days. | Here is what I found about
    {topic}: it takes 3 to 5 days. | The {slot} is 42. | It is open from 9 to 5. | It costs $12 a month. | You can do that
    in the app under settings. | According to our records, {topic} looks fine. | The limit is $500 per day. | I found 3
    results for {topic}. | Yes, that is possible. | No, that is not included.
    """
)
OFFERS = _listed(
    """
    Is there anything else I can help you with? | Anything else? | Can I help with something else? | What else can I do
    for you? | Do you need anything more? | Let me know if you need further help. | You're welcome! Anything else today?
    """
)
REFUSALS = _listed(
    """
    I'm sorry, I can't help with that. | Sorry, I didn't understand that. Could you rephrase? | I can only help with
    {topic}. | Unfortunately I'm not able to do that. | I don't know about that. Is this about {topic}? | Sorry, could you
    tell me more? | I'm afraid that is not something I handle.
    """
)
CHAT = _listed(
    """
    I'm doing great, thanks for asking! | Ha, good one. | I'm just a virtual assistant. | You're welcome! | Hello! How can
    I help you today? | Thanks, that's kind. | I like to think so.
    """
)
YES = _listed(
    """
    yes | yes please | yeah | yep | sure | ok | okay | correct | that's right | yes, that's correct | sounds good | go
    ahead | please do | yes go ahead | of course | absolutely | right | yup | fine | perfect | that works | yes that is
    fine | great | y | sure, do it | please | alright | exactly | i do | i think so | 👍 | yes!! | ye
    """
)
NO = _listed(
    """
    no | nope | no thanks | not really | no, not that one | not now | no, the other one | i don't think so | no it's wrong
    | not yet | nah | no, please change it | none of them | i don't have it | i don't know | not sure | no idea | never |
    no, wait | neither | n | that's not what i meant
    """
)
ANSWERS = _listed(
    """
    {digits} | {digits} | it's {digits} | my number is {digits} | {code} | {code} | the code is {code} | {email} | {email}
    | my email is {email} | {email} is the address | {date} | {date} | on {date} | {date} please | {time} | around {time}
    | {date} at {time} | {person} | {person} | my name is {person} | it's under {person} | {city} | {city} | in {city} | i
    live in {city} | from {city} | {amount} | about {amount} | {amount} i think | {small} | {small} people | just {small}
    | the {nth} one | the {nth} one please | {color} | {color} one | large | medium please | the cheaper one | the
    earliest one | tomorrow | next week | asap | whatever is available | any is fine | doesn't matter | both | the same as
    last time | {street} | {street}, {city} | {phone} | you can call me at {phone} | because it was broken | it was the
    wrong size | since yesterday | two days ago | a week ago i think | english | visa | the blue visa card | by email | by
    post please | for me and my wife | my husband's | it's a gift | i bought it online | the one ending in {four} | ending
    in {four} | {four} | {nth} | let me check... {code} | hold on, it's {digits} | sorry, it's {code} | {person}, {date} |
    can you use {email} | it says {code} | should be {date} | maybe {time}? | is {time} ok? | economy | business class |
    standard shipping | express | dollars | monthly | checking | savings | one way | window seat | no preference | anytime
    after {time} | between {small} and {four}
    """
)
FOLLOWUPS = _listed(
    """
    how long will that take? | how much is it? | how much does that cost? | is it free? | can you change it to {date}? |
    what about {date}? | and {date}? | why? | why is that? | are you sure? | can you send it to {email}? | is there a
    cheaper one? | do you have another option? | what's the address? | when will it arrive? | can i do that online? | can
    you repeat that? | what does that mean? | i don't understand | can you explain that again? | is that included? | and
    if i don't? | how do i do that? | what else do you need? | what are my options? | tell me more about it | which one is
    better? | can you do it for me? | when does it start? | is it safe? | who is it from? | what time? | where is it? |
    how far is that? | do they have parking? | show me the other one | that's too expensive | that's too late, anything
    earlier? | can i cancel it later? | make it {small} instead | actually make that {date} | no, i meant {date} | wait,
    change the name to {person} | is it still available? | did it go through? | did you get that? | what happens next? |
    will i get an email? | it still doesn't work | i already tried that | that didn't help | it says error {four} | and
    the {slot}? | what was the {slot} again? | could you remind me of the {slot}? | what {slot} do you have for me? | hmm,
    what if it's late? | ok what should i do now? | can someone call me about it? | i changed my mind about the {slot} |
    let's do the {nth} one | i'll take it | i'd like the {nth} one | book it | do that please | yes, and send me a
    confirmation | great, thanks. how long does it take? | ok and how much would it be?
    """
)
THANKS = _listed(
    """
    thanks | thank you | thank you so much | great, thanks | ok thanks | perfect, thank you | thanks a lot! | cheers |
    awesome | cool, thanks for your help | ty | that's great | appreciate it
    """
)
CLOSING = _listed(
    """
    no, that's all | that's all, thanks | no thank you, bye | nope, i'm good | that will be all | no, nothing else | bye |
    thanks, have a nice day | that's it for now | no that's everything | goodbye | no, thanks for your help | i'm all set
    | nothing else thank you
    """
)
PREFIXES = (
    "", "", "", "", "", "", "", "also, ", "and ", "thanks. ", "ok thanks, ", "great. ", "by the way, ", "btw ",
    "actually, ", "another thing: ", "one more thing, ", "ok. now ", "yes, and ", "no. ", "no, ", "wait, ",
    "hold on, ", "before that, ", "never mind that. ", "forget it, ", "different question: ", "new topic: ", "hi, ",
    "perfect, ", "that's fine. ", "alright, ", "oh and ", "quick question, ", "instead, ", "i also need help: ",
    "ok cool. ", "next: ", "meanwhile, ", "let me ask something else. ", "sorry, ", "hmm ok. ", "okay, moving on. ",
    "yes please. also ", "sounds good. ",
)  # fmt: skip

OPENINGS = (
    "", "", "", "", "", "", "", "hi, ", "hello, ", "hey ", "good morning, ", "hi there! ", "please help: ",
    "excuse me, ", "i have a question. ", "hello can you help me? ",
)  # fmt: skip

RETURNS = _listed(
    """
    now back to {topic} | ok, back to {topic} | back to {topic} please | let's go back to {topic} | can we return to
    {topic}? | so, about {topic} again | anyway, {topic} | let's continue with {topic} | where were we with {topic}? | i
    want to get back to {topic} | okay now {topic} again | as i was saying about {topic} | can we finish {topic} first? |
    returning to {topic}
    """
)
RETURNS_BLIND = _listed(
    """
    ok, back to what we were doing before | let's go back to the previous topic | back to my first question | anyway,
    where were we? | let's return to the first thing | can we continue with what we did before? | back to the other thing
    | ok as i was saying before that | go back please | let's continue with the original request
    """
)
CALLS = _listed(
    """
    let me talk to {name} | can i speak to {name}? | i want to talk to {name} | transfer me to {name} | please connect me
    with {name} | switch to {name} | {name} please | put me through to {name} | i need the {name} team | can you get me
    {name}? | get me the {name} department | hand me over to {name} | i'd rather talk to {name} | give me {name} | is
    {name} there? | @{name} | back to {name} | connect me to the {name} agent | no, i wanted {name} | wrong department,
    {name} please | ask {name}
    """
)
RETURNS_WITH = ("back to my earlier question: ", "now again: ", "ok, back: ", "returning to this: ")
MENTIONS = _listed(
    """
    it says {topic} | it says error {four}, {topic} | the one from my last {topic} | because of the {topic} | the {topic} one
    | yes, same as the {topic} | {topic} {digits} | by post, with the {topic} please | it was for {topic} i think | {date},
    after the {topic} | no, that was about {topic} | the screen shows {topic} | same as for {topic} | it's on the {topic}
    street | my husband's, not the {topic} | the address from the {topic}, {street} | {code}, from the {topic} mail | {city},
    near the {topic} | no i don't have {topic} | {topic}? no, {person}
    """
)
FOREIGN = _listed(
    """
    ¿Dónde está mi pedido? | quiero cancelar mi suscripción por favor | no entiendo nada de lo que dices | je voudrais
    changer mon adresse | où se trouve le magasin le plus proche | combien ça coûte exactement | ich möchte meine
    Bestellung stornieren | wie lange dauert die Lieferung noch | das funktioniert leider immer noch nicht | vorrei
    prenotare un tavolo per due | quanto tempo ci vuole ancora | non ho capito bene | quero falar com um atendente | qual
    é o valor da fatura | ik wil graag mijn wachtwoord wijzigen | hoeveel kost dat ongeveer | jag vill ändra min bokning
    tack | kan jeg få hjælp til min konto | chcę anulować zamówienie proszę | ne kadar sürer acaba teslimat | saya ingin
    membatalkan pesanan saya | tôi muốn đổi mật khẩu | haluaisin vaihtaa osoitteeni kiitos | kolik to bude stát prosím |
    szeretném lemondani az előfizetést | Где мой заказ? | 我想取消订单 | 注文をキャンセルしたい | أريد إلغاء طلبي |
    मैं अपना ऑर्डर रद्द करना चाहता हूं | 내 주문은 어디에 있나요 | Πού είναι η παραγγελία μου; | אני רוצה לבטל
    """
)
STRANGE = _listed(
    """
    SELECT * FROM users WHERE id = 42; | def main(): print('hello') | asdfgh jkl qwerty | lorem ipsum dolor sit amet
    consectetur | xkcd 9f8a7 zzz qqq | <div class='a'>b</div> | 🙂🙂🙂 | ... | ??? | hjkl | the mitochondria is the
    powerhouse of the cell | to be or not to be | blah blah blah | aaaaaaaa | 1+1 | {"a": [1, 2]}
    """
)
PEOPLE = _listed(
    """
    John Smith | Maria Lopez | anna | Peter Jones | priya patel | Wei Chen | mohammed | Sarah O'Neill | lucas meyer | Olga
    Ivanova | david | Emma Brown
    """
)
CITIES = _listed(
    """
    Paris | new york | San Francisco | berlin | Tokyo | austin texas | Leeds | Toronto | chicago | Rome | Mexico City |
    seattle
    """
)
STREETS = _listed(
    """
    12 Main Street | 221b baker street | 4500 Oak Ave apt 3 | 77 Hill Road | PO Box 419 | 9 rue de la Paix | 1600 Elm Blvd
    """
)
COLORS = _listed(
    """
    blue | red | black | the green | white | grey
    """
)
NTHS = _listed(
    """
    first | second | third | last
    """
)
DATES = _listed(
    """
    monday | tomorrow | March 5th | next friday | the 14th | 12/05/2025 | june 3 | this weekend | tuesday | may 21 2024 |
    in two weeks | today
    """
)
GREETINGS = _listed(
    """
    hi | hello | hey | hi there | good morning | hello! | hey, how are you? | good evening | howdy | hello there | Hi, how
    is it going? | yo | hiya | greetings
    """
)
