/* What the clients of the services stock and prime accept: every right reply, and no wrong one; and the shape
 * of the stocks' indices, which no reply shows.
 *
 *     service_clients FOLDER
 *
 * FOLDER is an empty folder to write in. Links with all of pyx/csrc but main.c. Exit status 1, and one line
 * for each failure. */
#define _GNU_SOURCE
#include "client_subject.h"
#include "services/stock_index.h"

#include <unistd.h>

static void stock_verdicts(const char *mix, const struct verdict *verdicts, size_t count) {
    const char *const settings[][2] = {{"mix", mix}, {"table", "stocks.txt"}};
    const char *const pages[][2] = {{"mix", mix}, {"table", "stocks.txt"}, {"dialect", "padded"}};
    struct subject line, padded;
    begin(&line, "stock", settings, 2);
    begin(&padded, "stock", pages, 3);
    for (size_t i = 0; i < count; i++) {
        const char *reply = verdicts[i].reply;
        size_t length = strlen(reply);
        expect(&line, mix, reply, length, verdicts[i].status);
        char page[8192] = "";
        if (length > 1 && !strcmp(reply + length - 2, "\n\n"))
            length--;
        memcpy(page, reply, length);
        expect(&padded, "padded", page, sizeof(page), verdicts[i].status);
        page[8191] = 'x';
        expect(&padded, "padding that is not zero", page, sizeof(page), -EBADMSG);
    }
    end(&line);
    end(&padded);
}

static void stock_clients(void) {
    FILE *file = fopen("stocks.txt", "w");
    if (!file || fputs("7 10 500\n3 20 600\n", file) < 0 || fclose(file))
        abort();
    static const struct verdict shows[] = {
        {"7 10 500\n3 20 600\n\n", 1},        {"7 1 500\n3 0 600\n\n", 1},
        {"7 10 500\n\n", -EBADMSG},           {"7 10 500\n3 20 600\n3 20 600\n\n", -EBADMSG},
        {"3 20 600\n7 10 500\n\n", -EBADMSG}, {"7 10 500\n3 20 601\n\n", -EBADMSG},
        {"7 10 500\n3 -1 600\n\n", -EBADMSG}, {"7 10 500\n3  20 600\n\n", -EBADMSG},
        {"7 10\n3 20 600\n\n", -EBADMSG},     {"error: something\n", -EBADMSG},
    };
    static const struct verdict buys[] = {
        {"[buy] success\n", 1},         {"Not enough left stock\n", 1}, {"[sell] success\n", -EBADMSG},
        {"[buy] success \n", -EBADMSG}, {"error: no\n", -EBADMSG},      {"7 10 500\n", -EBADMSG},
    };
    static const struct verdict sells[] = {
        {"[sell] success\n", 1}, {"Not enough left stock\n", -EBADMSG}, {"[buy] success\n", -EBADMSG}};
    stock_verdicts("show", shows, sizeof(shows) / sizeof(*shows));
    stock_verdicts("buy:2", buys, sizeof(buys) / sizeof(*buys));
    stock_verdicts("sell:0.5,show:0", sells, sizeof(sells) / sizeof(*sells));
    remove("stocks.txt");
}

/* A buy beyond the funds is right where there are funds. */
static void stock_accounts(void) {
    for (int accounts = 0; accounts < 2; accounts++) {
        const char *const settings[][2] = {{"mix", "buy"}, {"accounts", accounts ? "on" : "off"}};
        struct subject subject;
        begin(&subject, "stock", settings, 2);
        expect(&subject, "accounts", "Not enough funds\n", 17, accounts ? 1 : -EBADMSG);
        end(&subject);
    }
}

/* Only what the server confirmed is in the ledger. */
static void stock_ledger(void) {
    static const char *const settings[][2] = {{"mix", "buy:1,sell:1"}, {"stocks", "3"}};
    static const char *const replies[] = {"[buy] success\n", "[sell] success\n", "Not enough left stock\n"};
    struct subject subject;
    begin(&subject, "stock", settings, 2);
    int64_t expected[4][2] = {{0}}, rows[10][3];
    size_t taken;
    for (int i = 0; i < 3000; i++) {
        int operation = ask(&subject), reply = (int)random_below(&subject.random, 3);
        char word[8];
        long id, amount;
        if (buffer_put(&subject.asked, "", 1) ||
            sscanf(buffer_data(&subject.asked), "%7s %ld %ld", word, &id, &amount) != 3 || id < 1 || id > 3 ||
            amount < 1 || amount > 10)
            abort();
        feed(&subject, replies[reply], strlen(replies[reply]), 1000, &taken);
        if (reply + 1 == operation)
            expected[id][reply] += amount;
    }
    check(subject.ops->ledger(subject.client, rows, 2) == 2, "the ledger", "two rows of room", 0);
    size_t count = subject.ops->ledger(subject.client, rows, 10);
    check(count == 3, "the ledger", "rows", (long)count);
    for (size_t i = 0; i < count; i++)
        check(rows[i][1] == expected[rows[i][0]][0] && rows[i][2] == expected[rows[i][0]][1] && rows[i][1] &&
                  rows[i][2],
              "the ledger", "bought", (long)rows[i][1]);
    end(&subject);
}

/* Shares of 1 : 3 : 6 within 5 standard deviations, and nothing of what weighs nothing. */
static void stock_mix(void) {
    static const struct {
        const char *mix;
        double share[3];
    } cases[] = {{"show:1,buy:3,sell:6", {.1, .3, .6}}, {"sell:2,show:2", {.5, 0, .5}}, {"buy", {0, 1, 0}}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *const settings[][2] = {{"mix", cases[i].mix}};
        struct subject subject;
        begin(&subject, "stock", settings, 1);
        enum { DRAWS = 20000 };
        long count[3] = {0};
        for (int k = 0; k < DRAWS; k++)
            count[ask(&subject)]++;
        for (int k = 0; k < 3; k++) {
            double share = cases[i].share[k], off = (double)count[k] - DRAWS * share;
            check(off * off <= 25 * DRAWS * share * (1 - share), "the mix", cases[i].mix, count[k]);
        }
        end(&subject);
    }
}

/* The pool is longer than no request: windows wrap, and with 70,000 numbers more than once. */
static void prime_client(const char *array, uint32_t count) {
    const char *const settings[][2] = {{"array", array}, {"bits", "12"}};
    struct subject subject;
    char acknowledgement[4] = {0, (char)(count >> 16), (char)(count >> 8), (char)count};
    char *answers = malloc(count);
    size_t taken;
    begin(&subject, "prime", settings, 2);
    for (int round = 0; round < 30; round++) {
        check(ask(&subject) == 0 && buffer_length(&subject.asked) == 4 &&
                  !memcmp(buffer_data(&subject.asked), acknowledgement, 4),
              "the count", array, 0);
        buffer_consume(&subject.asked, 4);
        check(feed(&subject, acknowledgement, 4, 1, &taken) == 0 &&
                  buffer_length(&subject.asked) == 4 * (size_t)count,
              "the numbers", array, (long)buffer_length(&subject.asked));
        for (uint32_t i = 0; i < count; i++) {
            const unsigned char *bytes = (const unsigned char *)buffer_data(&subject.asked) + 4 * (size_t)i;
            unsigned number =
                (unsigned)bytes[0] << 24 | (unsigned)bytes[1] << 16 | (unsigned)bytes[2] << 8 | bytes[3];
            check(number < 4096, "12 bits", array, number);
            answers[i] = number > 1;
            for (unsigned divisor = 2; divisor * divisor <= number && answers[i]; divisor++)
                answers[i] = number % divisor != 0;
        }
        int spoilt = round % 3 == 2;
        if (spoilt)
            answers[random_below(&subject.random, count)] ^= 1;
        int rc = feed(&subject, answers, count, 1 + random_below(&subject.random, count), &taken);
        check(rc == (spoilt ? -EBADMSG : 1) && taken == count, spoilt ? "a wrong answer" : "right answers",
              array, rc);
    }
    ask(&subject);
    acknowledgement[3] ^= 1;
    int rc = feed(&subject, acknowledgement, 4, 4, &taken);
    check(rc == -EPROTO, "an acknowledgement of another count", array, rc);
    end(&subject);
    free(answers);
}

static void garbage(void) {
    const struct service_ops *ops;
    for (size_t i = 0; (ops = registry_service_at(i)); i++) {
        static const char *const settings[][2] = {{"expect", "+PONG"}}; /* else any line would be right */
        struct subject subject;
        begin(&subject, ops->name, settings, 1);
        for (int round = 0; round < 300; round++) {
            char bytes[1000];
            size_t length = 1 + random_below(&subject.random, sizeof(bytes)), taken;
            for (size_t k = 0; k < length; k++)
                bytes[k] = random_below(&subject.random, 8) ? (char)random_next(&subject.random) : '\n';
            ask(&subject);
            int rc = feed(&subject, bytes, length, 1 + random_below(&subject.random, 300), &taken);
            check(rc != 1 && taken <= length, "garbage", ops->name, rc);
        }
        end(&subject);
    }
}

struct naive {
    int64_t id;
    struct naive *child[2];
};

/* Insertion one by one, as the knob promises; gives the depth of the new id. */
static size_t insert(struct naive **root, struct naive *node) {
    size_t depth = 1;
    for (; *root; depth++)
        root = &(*root)->child[node->id > (*root)->id];
    *root = node;
    return depth;
}

static void indices(void) {
    enum { COUNT = 1000 };
    static struct naive node[COUNT];
    static struct stock_row rows[COUNT];
    struct random random;
    random_seed(&random, 3, 3);
    for (int order = 0; order < 6; order++) {
        struct naive *root = NULL;
        struct stock_index *inserted, *balanced, *hash, *array;
        for (int i = 0; i < COUNT; i++) {
            int other = order == 0 ? i : order == 1 ? 0 : (int)random_below(&random, (uint64_t)i + 1);
            rows[i].id = rows[other].id;
            rows[other].id = 10 * i + 5;
        }
        if (stock_index_create("bst", rows, COUNT, &inserted) ||
            stock_index_create("balanced", rows, COUNT, &balanced) ||
            stock_index_create("hash", rows, COUNT, &hash) ||
            stock_index_create("array", rows, COUNT, &array))
            abort();
        size_t looks = 0;
        for (int i = 0; i < COUNT; i++) {
            node[i] = (struct naive){.id = rows[i].id};
            size_t depth = insert(&root, &node[i]), least = stock_index_depth(balanced, rows[i].id);
            check(stock_index_depth(inserted, rows[i].id) == depth, "bst depth",
                  order ? "shuffled" : "sorted", (long)stock_index_depth(inserted, rows[i].id));
            check(least >= 1 && least <= 10, "balanced depth", order ? "shuffled" : "sorted", (long)least);
            struct stock_index *indices[] = {inserted, balanced, hash, array};
            for (int k = 0; k < 4; k++)
                check(stock_index_find(indices[k], rows[i].id) == i &&
                          stock_index_find(indices[k], rows[i].id + 1) < 0 &&
                          stock_index_find(indices[k], rows[i].id - 6) < 0,
                      "find", order ? "shuffled" : "sorted", k);
            looks += stock_index_depth(hash, rows[i].id);
            check(stock_index_depth(array, rows[i].id) <= 11, "array", "looks at more than its logarithm", i);
        }
        /* Linear probing at a load of at most a half looks at 1.5 places on average (Knuth, 1963). */
        check(looks < 2 * COUNT, "hash", "looks at too many places", (long)looks);
        struct stock_row one = {.id = 7};
        struct stock_index *single;
        if (stock_index_create(order % 2 ? "hash" : "array", &one, 1, &single))
            abort();
        check(!stock_index_find(single, 7) && stock_index_find(single, 6) < 0 &&
                  stock_index_find(single, 8) < 0,
              "find", "of one", order);
        stock_index_destroy(single);
        stock_index_destroy(inserted);
        stock_index_destroy(balanced);
        stock_index_destroy(hash);
        stock_index_destroy(array);
    }
}

int main(int count, char **words) {
    if (count != 2 || chdir(words[1])) {
        fprintf(stderr, "usage: service_clients FOLDER\n");
        return 2;
    }
    stock_clients();
    stock_accounts();
    stock_ledger();
    stock_mix();
    prime_client("1", 1);
    prime_client("50", 50);
    prime_client("70000", 70000);
    garbage();
    indices();
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
