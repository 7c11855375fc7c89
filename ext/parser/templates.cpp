#include "parser/templates.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "core/at.h"

namespace vs::parser {
namespace {

// McDonald et al. (2005), section 3.2, with lemmas, UPOS, FEATS and affixes beside (MSFXM10,
// section 6).
const char* const kArcs[] = {
    "hf",
    "hl",
    "hp",
    "hp hf",
    "hc hx",
    "h-p hp h+p",
    "h-l hp",
    "hp h+l",
    "mf",
    "ml",
    "mp",
    "mp mf",
    "mc mx",
    "m-p mp m+p",
    "m-l mp",
    "mp m+l",
    "hp mp",
    "hc mc",
    "hf mf",
    "hl ml",
    "hp hf mp",
    "hp mp mf",
    "hl mp",
    "hp ml",
    "hl mc",
    "hc ml",
    "hp hl mp ml",
    "hf mp",
    "hp mf",
    "hc hx mc mx",
    "hx mx",
    "hp mp mx",
    "hp hx mp",
    "hu mp",
    "hp mu",
    "hu mu",
    "hc mr",
    "hr mc",
    "hp h+p m-p mp",
    "h-p hp m-p mp",
    "hp h+p mp m+p",
    "h-p hp mp m+p",
    "hp h+p mp",
    "h-p hp mp",
    "hp m-p mp",
    "hp mp m+p",
    "hc h+c m-c mc",
    "h-c hc m-c mc",
    "hc h+c mc m+c",
    "h-c hc mc m+c",
    "hc m-c mc",
    "hc mc m+c",
    "h-c hc mc",
    "hc h+c mc",
    "h-c hc h+c m-c mc m+c",
    "hc m-c mc m+c",
    "h-c hc h+c mc",
    "hp mp m+p m++p",
    "hp m--p m-p mp",
    "hp h+p h++p mp",
    "h--p h-p hp mp",
    "hl mc m+c",
    "hl m-c mc",
    "h-c hc ml",
    "hc h+c ml",
    "hc mc m+l",
    "hc mc m-l",
    "hc mc h+l",
    "hc mc h-l",
    "d:hc mc",
    "d:hp mp",
    "d:hl mc",
    "d:hc ml",
    "d:hc",
    "d:mc",
    "n:hc mc",
    "n:hp mp",
    "n:hl mc",
    "n:hc ml",
    "b:hc mc",
    "b:hp mp",
};
// All pairs of modifiers of a head, adjacent or not (RS10); m left of s.
const char* const kSiblings[] = {
    "mc sc",        "mp sp",        "hc mc sc",   "hp mp sp", "mf sf",        "ml sl",
    "ml sp",        "mp sl",        "hl mc sc",   "hc ml sc", "hc mc sl",     "hc ml sl",
    "hl ml sc",     "hl mc sl",     "hl mp sp",   "hc mx sx", "hp mp m+p sp", "hp mp s-p sp",
    "hc mc sc s+c", "hc m-c mc sc", "d:hc mc sc", "n:mc sc",  "n:hc mc sc",   "n:hp mp sp",
};
const char* const kGrandparents[] = {
    "gc mc",        "gp mp",        "gc hc mc",     "gp hp mp",
    "gf mf",        "gl ml",        "gl mp",        "gp ml",
    "gl hc mc",     "gc hl mc",     "gc hc ml",     "gl hl mc",
    "gl hc ml",     "gc hl ml",     "gp hl mp",     "gc gx hc hx mc mx",
    "gp hp mp m+p", "gp hp m-p mp", "gp hp h+p mp", "gp h-p hp mp",
    "d:gc hc mc",   "n:gc hc mc",
};
// An arc over words that do not descend from its head.
const char* const kNonprojectives[] = {
    "hp",    "mp",    "hl",    "ml",      "hp mp",   "hc mc",   "hl mp",
    "hp ml", "hl ml", "hc mu", "d:hc mc", "n:hp mp", "b:hc mc",
};
// Enough to tell which heads are worth a look.
const char* const kPruners[] = {
    "hp",
    "mp",
    "mf",
    "hl",
    "hp mp",
    "hc mc",
    "hl ml",
    "hl mp",
    "hp ml",
    "hp h+p m-p mp",
    "h-p hp m-p mp",
    "hp h+p mp m+p",
    "h-p hp mp m+p",
    "hc hx mc mx",
    "d:hc mc",
    "n:hp mp",
    "b:hp mp",
};
const char* const kLabels[] = {
    "mf",        "ml",        "mp",        "mc mx",       "hl",        "hp",
    "hc hx",     "hp mp",     "hc mc",     "hl ml",       "hl mp",     "hp ml",
    "hp m-p mp", "hp mp m+p", "h-p hp mp", "hp h+p mp",   "mp mf",     "mp m-l",
    "mp m+l",    "hc mu",     "hu mc",     "hc hx mc mx", "hf mc m+c", "hc m-c mc m+c",
    "d:hc mc",   "n:hp mp",
};

struct List {
    const char* const* text;
    int64_t size;
    const char* roles;
};
#define VS_LIST(list, roles) {list, static_cast<int64_t>(sizeof(list) / sizeof(list[0])), roles}
const List kLists[kKinds] = {VS_LIST(kArcs, "hm"),          VS_LIST(kSiblings, "hms"),
                             VS_LIST(kGrandparents, "ghm"), VS_LIST(kNonprojectives, "hm"),
                             VS_LIST(kPruners, "hm"),       VS_LIST(kLabels, "hm")};
#undef VS_LIST

Template parse(const char* text, const char* roles, int bits, uint32_t* mask) {
    Template t;
    if (text[1] == ':') {
        t.with = text[0] == 'd' ? With::kDistance : text[0] == 'n' ? With::kCounts : With::kBetween;
        text += 2;
    }
    int tags = t.with != With::kNothing, words = 0;
    for (const char* c = text; *c; ++c) {
        if (*c == ' ') continue;
        const int64_t role = std::strchr(roles, *c) - roles;
        int offset = 0;
        for (++c; *c == '+' || *c == '-'; ++c) offset += *c == '+' ? 1 : -1;
        if (std::abs(offset) > kAround) throw std::logic_error("a word too far away");
        static const char letters[] = "flcpxur";
        const auto field = static_cast<Field>(std::strchr(letters, *c) - letters);
        t.of[role].push_back({offset, field});
        (field == kCoarse || field == kFine ? tags : words) += 1;
    }
    // Few combinations of tags want few lines.
    const int fewer = words > 1                ? 0
                      : words == 1 && tags > 0 ? 0
                      : words == 1             ? 2
                      : tags > 3               ? 1
                      : tags == 3              ? 2
                                               : 4;
    *mask = (1u << std::max(kLeastBits, bits - fewer)) - 1;
    return t;
}

}  // namespace

Set make_set(Kind kind, int bits) {
    const List& list = kLists[static_cast<int>(kind)];
    Set set;
    set.roles = static_cast<int>(std::strlen(list.roles));
    for (int64_t i = 0; i < list.size; ++i) {
        uint32_t mask = 0;
        set.all.push_back(parse(list.text[i], list.roles, bits, &mask));
        set.base.push_back(set.lines);
        set.mask.push_back(mask);
        set.lines += mask + 1;
        set.plain += set.all.back().with == With::kNothing;
    }
    return set;
}

Set make_named_set(Kind kind, const int64_t* sizes) {
    Set set = make_set(kind, kLeastBits);
    set.named = true;
    set.lines = 0;
    for (int64_t t = 0; sizes && t < set.size(); ++t) {
        uint32_t lines = 1;
        while (int64_t{lines} < 2 * sizes[t]) lines *= 2;
        set.base[at(t)] = set.lines;
        set.mask[at(t)] = lines - 1;
        set.lines += lines;
    }
    return set;
}

}  // namespace vs::parser
